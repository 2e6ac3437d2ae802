"""What saving costs is said before the run: from a save that is tried where the run will lie."""

import itertools
from dataclasses import replace

import pytest

from hotloop.config.common import Training
from hotloop.core.progress import ReadyToTrain
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.checkpoint.folders import listing
from hotloop.jobs.forecast.limits import TRIAL, save_cost, save_seconds
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request
from hotloop.jobs.train import silent, train

MIB = 1 << 20
TRAINING = Training(save_every_steps=20, save_every=600.0, keep=3)


def test_the_bytes_are_those_of_the_checkpoint(tiny, tmp_path):
    parts = assemble(fresh_request("char-lm", tiny), silent, lambda: None)
    train(parts.request, out=tmp_path / "run")
    (stored, *_) = listing(tmp_path / "run" / "checkpoints")
    beside = 5056 + 2500  # random streams and state.json, whatever the model
    assert parts.checkpoint_bytes < stored.bytes < 1.2 * parts.checkpoint_bytes + beside


def test_the_cost_is_shown_and_kept_before_step_1(tiny, tmp_path):
    heard = []
    train(fresh_request("char-lm", tiny), out=tmp_path / "run", notify=heard.append)
    fact = next(m for m in heard if isinstance(m, ReadyToTrain)).facts["saving"]
    assert ": 7 saves by steps x " in fact, "1, 7, 14, 21, 28, 35 and 40"
    assert "4 are kept, and the best" in fact
    assert RunDir.open(tmp_path / "run").read()["facts"]["saving"] == fact


def ticking(step):
    """Return a clock that is `step` seconds later at each look."""
    return itertools.count(0.0, step).__next__


def test_a_save_is_the_writing_and_the_verifying_of_all_that_are_kept(tmp_path):
    assert save_seconds(tmp_path, MIB, kept=3, now=ticking(0.5)) == 0.5 + 4 * 0.5
    assert list(tmp_path.iterdir()) == [], "nothing of the trial stays"


def test_a_large_one_is_inferred_from_what_each_byte_takes(tmp_path):
    # written: 2 s of which 1 s whatever its size; verified: next to nothing
    looks = iter([0.0, 2.0, 2.0, 2.0, 3.0, 3.0])
    found = save_seconds(tmp_path, 10 * TRIAL, kept=2, now=lambda: next(looks))
    assert found == pytest.approx(1.0 + 10 * 1.0)


def test_where_nothing_can_be_written_the_cost_is_unknown(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert save_seconds(tmp_path / "file", MIB, kept=2) is None


def test_the_cost_in_words():
    said = save_cost(TRAINING, 4000, size=100 * MIB, seconds=0.5)
    assert said.startswith("100 MiB each, durable after 500 ms: 201 saves by steps x 500 ms = 1:40")
    assert "by time at most 0.1% of the run, of new bests at most 5%; 3 are kept" in said
    never = replace(TRAINING, save_every_steps=None, best_cooldown=0.0)
    assert "2 saves by steps" in save_cost(never, 4000, size=MIB, seconds=0.5)
    assert "each new best at once" in save_cost(never, 4000, size=MIB, seconds=0.5)
    rarely = replace(TRAINING, best_cooldown=50.0)
    assert "of new bests at most 1%" in save_cost(rarely, 4000, size=MIB, seconds=0.5)


@pytest.mark.parametrize(
    ("every", "steps", "saves"), [(None, 40, 2), (7, 40, 7), (1, 40, 40), (40, 40, 2), (None, 1, 1)]
)
def test_saves_by_steps(every, steps, saves):
    assert replace(TRAINING, save_every_steps=every).fixed_saves(steps) == saves
