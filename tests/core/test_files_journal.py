"""The journal, and texts that one process at a time may change."""

import errno
import fcntl
import itertools
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hotloop.core.errors import WriteError
from hotloop.core.files import DISK, Disk, Journal, change_text


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


def test_a_text_is_changed_and_an_empty_one_is_no_file(tmp_path):
    path, seen = tmp_path / "lock", []

    def to(text):
        return lambda old: (seen.append(old), text)[1]

    for text in ("a long one", "short", "short", "", ""):
        change_text(path, to(text))
        assert (path.read_text() if path.exists() else "") == text
    assert seen == ["", "a long one", "short", "short", ""]
    assert not path.exists()


def test_an_error_of_the_change_leaves_the_text(tmp_path):
    path = tmp_path / "lock"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        change_text(path, lambda old: f"{1 / 0}")
    change_text(path, lambda old: f"{old}er")
    assert path.read_text() == "older"


def test_a_text_is_not_changed_while_another_process_holds_it(tmp_path):
    path = tmp_path / "lock"
    path.write_text("a")
    with path.open("a+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(change_text, path, lambda old: old + "c")
            time.sleep(0.05)
            assert not job.done()
            held.write("b")
            held.flush()
            fcntl.flock(held, fcntl.LOCK_UN)
            job.result()
    assert path.read_text() == "abc"


def test_a_file_removed_while_waiting_for_it_is_not_the_file(tmp_path):
    path = tmp_path / "lock"
    path.write_text("old")
    with path.open("a+") as held, ThreadPoolExecutor(1) as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        job = pool.submit(change_text, path, lambda old: f"{old}new")
        time.sleep(0.05)
        path.unlink()
        fcntl.flock(held, fcntl.LOCK_UN)
        job.result()
    assert path.read_text() == "new"


def test_a_text_in_a_missing_folder(tmp_path):
    with pytest.raises(WriteError, match="make its folder first"):
        change_text(tmp_path / "missing" / "lock", lambda old: "x")
