"""How a run of several ranks ends where one of them has less to do, or an error of its own."""

import pytest
from tests.several import ended, forked, losses, started, together

from hotloop.core.events import steps
from hotloop.core.storage.rundir import RunDir
from hotloop.jobs import train
from hotloop.jobs.request import fresh_request

from . import test_equal

settings = test_equal.settings


def other(texts, **changed):
    """Return settings with some of them changed; "__" stands for a dot."""
    new = {key.replace("__", "."): value for key, value in changed.items()}
    kept = [text for text in texts if text.partition("=")[0] not in new]
    return [*kept, *(f"{key}={value}" for key, value in new.items())]


def test_an_epoch_may_end_with_fewer_samples_than_ranks(tiny, preloaded_models, tmp_path):
    """110 samples in steps of 109: of the second one there is one sample for two ranks."""
    texts = other(tiny, training__batch_size=109, training__max_steps=6, model__dropout=0,
                  training__log_every=1, training__eval_every_steps="null")  # fmt: skip
    train.train(fresh_request("char-lm", texts), out=tmp_path / "one")
    forked(preloaded_models, "train", "char-lm", *texts, "--out", tmp_path / "two")
    for two, one in zip(losses(tmp_path / "two"), losses(tmp_path / "one"), strict=True):
        assert two == pytest.approx(one, rel=1e-5)
    shares = [[s.samples for s in steps(RunDir(tmp_path / "two").events(r))] for r in range(2)]
    assert [sum(each) for each in zip(*shares, strict=True)] == [109, 1] * 3
    assert 0 in shares[1]


@pytest.mark.slow
def test_an_error_of_one_rank_ends_all_also_while_a_best_one_waits(tiny, tmp_path):
    texts = other(tiny, training__eval_every_steps=1, training__best_cooldown="600s")
    process = started("train", "char-lm", *texts, "--out", tmp_path / "run",
                      module="tests.ranks_killed", HOTLOOP_FAULT="1:read:12")  # fmt: skip
    code, _, said = ended(process, within=60)
    assert code != 0
    assert "OSError: [Errno 116] Stale file handle" in said
    assert "another process of the group is gone; last good checkpoint: step" in said


@pytest.mark.slow
def test_a_series_of_runs_takes_turns_at_the_cache(settings, tmp_path):
    texts = other(settings["pair-classifier"], cv__folds=2, training__max_steps=4)
    texts = [text for text in texts if not text.startswith("data.validation_share=")]
    together("train", "pair-classifier", *texts, "--out", tmp_path / "runs",
             HOTLOOP_CACHE=str(tmp_path / "cache"))  # fmt: skip
    for fold in ("fold-1", "fold-2"):
        assert RunDir(tmp_path / "runs" / fold).read()["status"] == "complete"
