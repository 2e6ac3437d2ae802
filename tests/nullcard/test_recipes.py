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

pytestmark = pytest.mark.nullcard

GOLDEN = Path(__file__).parent / "launches.json"
LOG_EVERY, STEPS, LOOKED_AT = 6, 12, 3  # the engine inspects the gradients of three steps
TOLERANCE = 0.02  # an operator more a step is 1 of some 100: it is seen

TRAIN = """
import torch
from tests.nullcard.steps import train
facts |= train(*{words!r})
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
    assert char_lm["exit"] == 0
    assert len(char_lm["steps"]) == STEPS


def test_char_lm_waits_at_the_log_interval_only(char_lm):
    """Once an interval the losses are read; in other steps the host is never held up."""
    for number, step in enumerate(char_lm["steps"], 1):
        if number > LOOKED_AT:
            is_logged = number % LOG_EVERY == 0
            assert sum(step["waits"].values()) == int(is_logged), f"step {number}: {step['waits']}"


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
