"""char-lm's steps on a null card: nothing waits but the log, and as many launches as before."""

import pytest
from tests.nullcard.golden import LOOKED_AT, TRAIN, hold
from tests.nullcard.programs import run

from hotloop.engine.time_left import LOOK

pytestmark = pytest.mark.nullcard

LOG_EVERY, STEPS = 6, 12


@pytest.fixture(scope="module")
def char_lm(cuda_torch, tmp_path_factory, corpus):
    words = ["char-lm", f"data.path={corpus}", "model.layers=2", "model.heads=2", "model.width=32"]
    words += ["model.context=16", "model.dropout=0.1", "training.batch_size=8"]
    words += ["training.accumulation=1", f"training.max_steps={STEPS}", "training.precision=bf16"]
    words += ["training.eval_every_steps=1000", f"training.log_every={LOG_EVERY}"]
    words += ["--out", str(tmp_path_factory.mktemp("run") / "run"), "--quiet"]
    facts = run("rtx4090", TRAIN.format(words=words), process=cuda_torch).facts
    assert facts["exit"] == 0, facts["said"]
    return {"torch": facts["torch"], **facts["runs"][0]}


def test_char_lm_trains_to_its_end(char_lm):
    assert len(char_lm["steps"]) == STEPS


def test_char_lm_waits_at_the_log_interval_only(char_lm):
    """The losses are read once an interval, and once for the estimate of the time left, which is
    made after step LOOK and so counts for the next one. No other step holds the host up."""
    for number, step in enumerate(char_lm["steps"], 1):
        if number > LOOKED_AT:
            reads = number % LOG_EVERY == 0 or number == LOOK + 1
            assert sum(step["waits"].values()) == int(reads), f"step {number}: {step['waits']}"


def test_char_lm_launches_and_reserves_as_much_as_before(char_lm):
    hold("char-lm, tiny", "rtx4090", char_lm["torch"], char_lm)
