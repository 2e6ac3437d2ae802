"""A recipe's steps on a null card: nothing waits but the log, and as many launches as before.

`launches.json` holds what was seen, for each minor version of torch, which chooses the kernels.
To write it anew after a change that is meant: HOTLOOP_NULLCARD_RECORD=1 make test-nullcard.
"""

import json
import os
import statistics
from pathlib import Path

import pytest
from tests.nullcard.programs import run

from hotloop.engine.time_left import LOOK

pytestmark = pytest.mark.nullcard

GOLDEN = Path(__file__).parent / "launches.json"
LOG_EVERY, STEPS, LOOKED_AT = 6, 12, 3  # the engine inspects the gradients of three steps
TOLERANCE = 0.02  # 4 of 188 launches: an update or an attention that is no longer fused is more

TRAIN = """
import torch
from tests.nullcard.steps import train
facts |= train(*{words!r})
if facts["exit"]:
    raise SystemExit("hotloop ended with %d" % facts["exit"])
facts["torch"] = ".".join(torch.__version__.split(".")[:2])
"""


@pytest.fixture(scope="module")
def char_lm(cuda_torch, tmp_path_factory, corpus):
    words = ["char-lm", f"data.path={corpus}", "model.layers=2", "model.heads=2", "model.width=32"]
    words += ["model.context=16", "model.dropout=0.1", "training.batch_size=8"]
    words += ["training.accumulation=1", f"training.max_steps={STEPS}", "training.precision=bf16"]
    words += ["training.eval_every_steps=1000", f"training.log_every={LOG_EVERY}"]
    words += ["--out", str(tmp_path_factory.mktemp("run") / "run"), "--quiet"]
    return run("rtx4090", TRAIN.format(words=words), process=cuda_torch).facts


def test_char_lm_trains_to_its_end(char_lm):
    assert len(char_lm["steps"]) == STEPS


def test_char_lm_waits_at_the_log_interval_only(char_lm):
    """The losses are read once an interval, and once for the estimate of the time left, which is
    made after step LOOK and so counts for the next one. No other step holds the host up."""
    for number, step in enumerate(char_lm["steps"], 1):
        if number > LOOKED_AT:
            reads = number % LOG_EVERY == 0 or number == LOOK + 1
            assert sum(step["waits"].values()) == int(reads), f"step {number}: {step['waits']}"


def test_char_lm_launches_as_many_kernels_as_before(char_lm):
    launches = statistics.median(step["launches"] for step in char_lm["steps"][LOOKED_AT:])
    golden = json.loads(GOLDEN.read_text())
    versions = golden.setdefault("char-lm", {})
    if os.environ.get("HOTLOOP_NULLCARD_RECORD"):
        versions[char_lm["torch"]] = launches
        GOLDEN.write_text(json.dumps(golden, indent=2) + "\n")
    if (before := versions.get(char_lm["torch"])) is None:
        pytest.skip(f"launches.json has no count for torch {char_lm['torch']}")
    assert launches == pytest.approx(before, rel=TOLERANCE)
