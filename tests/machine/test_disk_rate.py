import itertools
import os

import pytest

from hotloop.machine.disk_rate import BLOCK, measure_disk


def test_writing_and_reading_are_timed_and_nothing_is_left(tmp_path):
    ticks = itertools.count(0.0, 0.5)
    found = measure_disk(tmp_path, size=4 * BLOCK, now=lambda: next(ticks), free=1 << 40)
    assert found.write == 4 * BLOCK / 0.5
    if hasattr(os, "posix_fadvise"):
        assert (found.read, found.why_not) == (4 * BLOCK / 0.5, None)
    assert list(tmp_path.iterdir()) == []


def test_with_little_room_nothing_is_written(tmp_path):
    found = measure_disk(tmp_path, size=BLOCK, free=15 * BLOCK)
    assert (found.write, found.read) == (None, None)
    assert found.why_not == "only 15 MiB are free"


@pytest.mark.skipif(os.name == "nt", reason="a folder's mode does not stop writing there")
def test_a_folder_that_cannot_be_written_is_a_reason(tmp_path):
    found = measure_disk(tmp_path / "not there", size=BLOCK, free=1 << 40)
    assert found.write is None
    assert "cannot write" in found.why_not
