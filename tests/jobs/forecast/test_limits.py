from dataclasses import replace

import pytest

from hotloop.config.common import Training
from hotloop.core.errors import DataError
from hotloop.jobs.forecast.limits import (
    LONG_VALIDATION,
    check_feed,
    long_validation,
    nearest_folder,
    room_needed,
)
from hotloop.session.accumulation_windows import AccumulationWindows


class Windows:
    fingerprint, in_memory = "", True

    def __len__(self) -> int:
        return 1000


FEED = AccumulationWindows(samples=Windows(), batch_size=10, drop_last=False)
TRAINING = Training(max_steps=1000, batch_size=10, accumulation=2, eval_every_steps=100)


def test_a_long_validation_is_told_with_what_would_be_short_enough():
    assert long_validation(TRAINING, FEED, 600) is None
    doubt = long_validation(TRAINING, FEED, 3000)
    assert "about 100% of the training between two of them" in doubt
    advice = doubt.split("training.eval_batches=")[1].split()[0]
    assert long_validation(replace(TRAINING, eval_batches=int(advice)), FEED, 3000) is None
    more = replace(TRAINING, eval_batches=int(advice) + 1)
    assert f"makes that {LONG_VALIDATION:.0%}" in long_validation(more, FEED, 3000)


def test_validating_each_epoch_is_counted_in_steps():
    epochs = replace(TRAINING, eval_every_steps=None, eval_every_epochs=1)
    assert long_validation(epochs, FEED, 600) is None
    assert long_validation(epochs, FEED, 601) is not None


def test_the_nearest_folder_is_one_that_is_there(tmp_path):
    (tmp_path / "file").touch()
    assert nearest_folder(tmp_path) == tmp_path
    assert nearest_folder(tmp_path / "runs" / "a") == tmp_path
    assert nearest_folder(tmp_path / "file" / "a") == tmp_path


@pytest.mark.parametrize(("keep", "needed"), [(2, 400), (5, 700)])
def test_room_is_for_what_is_kept_the_best_and_one_in_the_making(keep, needed):
    assert room_needed(100, keep) == needed


def test_an_epoch_that_dropping_leaves_without_a_step_is_refused_with_the_numbers():
    with pytest.raises(
        DataError, match=r"1000 samples are fewer than one batch of 1001, .*nothing"
    ):
        check_feed(replace(FEED, batch_size=1001, drop_last=True))
    check_feed(replace(FEED, batch_size=1000, drop_last=True))
    check_feed(replace(FEED, batch_size=1001))
