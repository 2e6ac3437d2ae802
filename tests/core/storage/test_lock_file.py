"""Texts that one process at a time may change."""

import fcntl
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from hotloop.core.errors import WriteError
from hotloop.core.storage.lock import change_text


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
