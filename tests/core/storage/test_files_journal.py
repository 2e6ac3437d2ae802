"""Files that are only appended to: the journal and growing ones."""

import errno
import itertools
import os
from pathlib import Path

import pytest

from hotloop.core.errors import WriteError
from hotloop.core.storage.files import DISK, Disk
from hotloop.core.storage.journal import Growing, Journal


def failing(call, error, *, at=0):
    """A disk whose `at`-th call of one kind fails; a failing write leaves half of its data."""
    numbers = itertools.count()

    def wrapped(*args):
        if next(numbers) != at:
            return getattr(DISK, call)(*args)
        if call == "write":
            stream, data = args
            stream.write(bytes(data)[: len(data) // 2])
        raise error

    return Disk(**{call: wrapped})


def oserror(number):
    return OSError(number, os.strerror(number))


def test_a_journal_appends_over_openings(tmp_path):
    path = tmp_path / "events.jsonl"
    journal = Journal(path)
    assert not journal.had_lines
    journal.append(["1", "2"])
    assert path.read_text() == "1\n2\n"  # handed over at once
    journal.append([])
    journal.close()
    journal.close()
    again = Journal(path)
    assert again.had_lines
    again.append(["3"], sync=True)
    again.close()
    assert path.read_text() == "1\n2\n3\n"


@pytest.mark.parametrize(
    ("before", "whole"),
    [
        (b"", b""),
        (b'{"a": 1', b""),
        (b"1\n2\n", b"1\n2\n"),
        (b'1\n{"a"', b"1\n"),
        (b"1\n" + bytes(4096), b"1\n"),  # a zeroed tail, as after a power loss
        (b"1\n" + b"x" * 300_000, b"1\n"),  # longer than what is read at once
        (b"x" * 65_535 + b"\n" + b"y" * 65_536, b"x" * 65_535 + b"\n"),  # at its border
        (b"x" * 200_000, b""),
    ],
)
def test_a_torn_last_line_is_cut_off(tmp_path, before, whole):
    path = tmp_path / "events.jsonl"
    path.write_bytes(before)
    journal = Journal(path)
    assert journal.had_lines == bool(whole)
    assert path.read_bytes() == whole
    journal.append(["next"])
    journal.close()
    assert path.read_bytes() == whole + b"next\n"


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("size", [10, 100_000])  # within and beyond the stream's buffer
def test_a_failed_append_is_all_or_nothing_and_can_be_retried(tmp_path, call, size):
    path, lines = tmp_path / "events.jsonl", ["a" * size, "b" * size]
    journal = Journal(path, disk=failing(call, oserror(errno.ENOSPC), at=1))
    journal.append(["first"], sync=True)
    with pytest.raises(WriteError, match=r"events.jsonl: No space left on device; free some space"):
        journal.append(lines, sync=True)
    journal.append(lines, sync=True)
    journal.append(["last"])
    journal.close()
    assert path.read_text().split("\n") == ["first", *lines, "last", ""]


def test_a_journal_on_a_real_full_device_reports_every_append(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    with open("/dev/full", "wb", buffering=0) as full:
        journal = Journal(tmp_path / "a", disk=Disk(write=lambda stream, data: full.write(data)))
        for _ in range(3):
            with pytest.raises(WriteError, match="No space left"):
                journal.append(["x"])
        journal.close()
    assert (tmp_path / "a").read_bytes() == b""


def test_a_journal_that_was_removed_goes_on_without_a_hole(tmp_path):
    path = tmp_path / "a"
    journal = Journal(path, disk=failing("write", oserror(errno.EIO), at=1))
    journal.append(["1"])
    path.unlink()
    with pytest.raises(WriteError):
        journal.append(["2"])
    journal.append(["3"])
    journal.close()
    assert path.read_text() == "3\n"


def test_a_journal_that_cannot_be_opened(tmp_path):
    with pytest.raises(WriteError, match="a folder is in the way"):
        Journal(tmp_path)


def test_a_growing_file_goes_on_from_what_was_right(tmp_path):
    path = tmp_path / "rows"
    growing = Growing(path)
    growing.append(b"one")
    growing.append(memoryview(b"two"))
    assert growing.length == 6
    growing.close()
    with path.open("ab") as stream:  # a kill in the middle of a write
        stream.write(b"hal")
    again = Growing(path, 6)
    again.append(b"three")
    again.close()
    assert path.read_bytes() == b"onetwothree"


def test_a_growing_file_that_lost_something_is_not_gone_on_with(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(b"one")
    with pytest.raises(WriteError, match="has 3 bytes, 6 were written"):
        Growing(path, 6)
    assert path.read_bytes() == b"one"


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_leaves_the_length_that_is_right(tmp_path, call):
    path = tmp_path / "rows"
    growing = Growing(path, disk=failing(call, oserror(errno.ENOSPC), at=1))
    growing.append(b"one")
    with pytest.raises(WriteError, match="free some space"):
        growing.append(b"four")
    assert growing.length == 3
    growing.close()
    again = Growing(path, growing.length)
    again.append(b"!")
    again.close()
    assert path.read_bytes() == b"one!"
