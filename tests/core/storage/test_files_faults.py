"""Failing system calls, other writers, and what is removed."""

import errno
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hotloop.core.errors import WriteError
from hotloop.core.storage.files import (
    DISK,
    MANIFEST,
    Disk,
    check_folder,
    free_bytes,
    leftovers,
    probe_folder,
    remove_folder,
    sweep,
    write_file,
    write_folder,
    write_json,
)

FILES = {"model.bin": [b"a" * 700, b"b" * 300], "state.json": [b'{"step": 7}']}
CONTENT = {name: b"".join(chunks) for name, chunks in FILES.items()}
REMEDY = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "quota exceeded; free some space",
    errno.EROFS: "Read-only file system; name another folder",
    errno.EFBIG: "ulimit -f",
    errno.EIO: "check the disk",
}


CALLS = ("write", "fsync", "fsync_folder", "rename")


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


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def files_in(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST}


@pytest.mark.parametrize("number", REMEDY, ids=errno.errorcode.get)
@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
def test_a_failed_write_keeps_the_old_file(tmp_path, call, number):
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(WriteError, match=f"cannot write .*a.json: .*{REMEDY[number]}"):
        write_file(path, "new", disk=failing(call, oserror(number)))
    assert tree(tmp_path) == {"a.json": b"old"}


def test_a_failed_sync_of_the_folder_fails_the_file(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(WriteError, match="Input/output"):
        write_file(path, "new", disk=failing("fsync_folder", oserror(errno.EIO)))
    assert tree(tmp_path) == {"a.json": b"new"}


@pytest.mark.parametrize("number", REMEDY, ids=errno.errorcode.get)
@pytest.mark.parametrize(("call", "calls"), [("write", 4), ("fsync", 3), ("fsync_folder", 2)])
def test_a_failed_write_leaves_no_folder(tmp_path, call, calls, number):
    write_folder(tmp_path / "step-1", FILES)
    before = tree(tmp_path)
    for at in range(calls):
        with pytest.raises(WriteError, match=f"step-2: .*{REMEDY[number]}"):
            write_folder(tmp_path / "step-2", FILES, disk=failing(call, oserror(number), at=at))
        assert tree(tmp_path) == before
    count = itertools.count()
    counting = Disk(**{call: lambda *args: (next(count), getattr(DISK, call)(*args))})
    write_folder(tmp_path / "step-2", FILES, disk=counting)
    assert next(count) == calls  # each call has failed once above


def test_a_failed_rename_leaves_no_folder(tmp_path):
    with pytest.raises(WriteError, match="Read-only"):
        write_folder(tmp_path / "a", FILES, disk=failing("rename", oserror(errno.EROFS)))
    assert tree(tmp_path) == {}


def test_a_message_without_an_error_number_still_says_what_to_do(tmp_path):
    with pytest.raises(WriteError, match="odd; check the disk"):
        write_file(tmp_path / "a", "x", disk=failing("write", OSError("odd")))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing/a.json", "make its folder first"),
        ("folder", "a folder is in the way"),
        ("x" * 300, "shorter name"),
        ("file/a.json", "a file is in the way"),
    ],
)
def test_impossible_places_have_a_remedy(tmp_path, name, words):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match=words):
        write_json(tmp_path / name, {})
    assert sorted(tree(tmp_path)) == ["file", "folder"]


@pytest.mark.parametrize("name", [".", "/"])
def test_a_folder_is_no_place_for_a_file(name):
    with pytest.raises(WriteError):
        write_file(Path(name), "x")


@pytest.mark.parametrize("error", [ValueError("bad chunk"), KeyboardInterrupt(), GeneratorExit()])
def test_the_chunks_own_error_leaves_nothing(tmp_path, error):
    def chunks():
        yield b"half"
        raise error

    with pytest.raises(type(error)):
        write_folder(tmp_path / "a", {"first": [b"whole"], "second": chunks()})
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("call", CALLS)
def test_a_signal_leaves_no_temp(tmp_path, call):
    (tmp_path / "a").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a", "new", disk=failing(call, KeyboardInterrupt()))
    expected = b"new" if call == "fsync_folder" else b"old"
    assert tree(tmp_path) == {"a": expected}


def test_a_real_full_device(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    with open("/dev/full", "wb", buffering=0) as full:
        disk = Disk(write=lambda stream, data: full.write(data))
        (tmp_path / "a").write_text("old")
        for write in (
            lambda: write_file(tmp_path / "a", "new", disk=disk),
            lambda: write_folder(tmp_path / "b", FILES, disk=disk),
        ):
            with pytest.raises(WriteError, match="No space left on device; free some space"):
                write()
            assert tree(tmp_path) == {"a": b"old"}


def test_a_real_limit_on_file_sizes(tmp_path):
    (tmp_path / "a").write_text("old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(WriteError, match=r"File too large; .*ulimit -f"):
            write_file(tmp_path / "a", b"x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert tree(tmp_path) == {"a": b"old"}


REAL = """
import os, subprocess, sys
from pathlib import Path
from hotloop.core.errors import WriteError
from hotloop.core.storage.files import check_folder, write_file, write_folder
disk = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=True)
print("mounted", flush=True)
def refused(word, write):
    before = sorted(disk.rglob("*"))
    try:
        write()
    except WriteError as error:
        assert word in str(error), error
        assert sorted(disk.rglob("*")) == before
        assert (disk / "a").read_text() == "old" and check_folder(disk / "good") == []
    else:
        raise AssertionError("was written")
def both(word, size):
    refused(word, lambda: write_file(disk / "a", b"x" * size))
    refused(word, lambda: write_folder(disk / "b", {"x": [b"x" * 50_000] * (size // 50_000)}))
write_file(disk / "a", "old")
write_folder(disk / "good", {"x": [b"x"]})
both("No space left", 500_000)
subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
both("Read-only file system", 50_000)
"""


def test_a_real_full_and_a_real_read_only_file_system(tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("no unshare")
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", sys.executable, "-c", REAL, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "mounted" not in done.stdout:
        pytest.skip(f"user namespaces are not usable here: {done.stderr}")
    assert done.returncode == 0, done.stderr


def test_a_sound_folder_that_is_there_stays(tmp_path):
    target, synced = tmp_path / "a", []
    first = write_folder(target, {"x": [b"first"]})
    disk = Disk(fsync_folder=synced.append)
    assert write_folder(target, {"x": [b"second"]}, disk=disk) == first
    assert files_in(target) == {"x": b"first"}
    assert synced[-1] == tmp_path  # its writer may not have come so far
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("harm", ["flip", "manifest"])
def test_a_broken_folder_is_replaced_and_kept_as_evidence(tmp_path, harm):
    target = tmp_path / "step-00000040"
    write_folder(target, FILES)
    if harm == "flip":
        (target / "model.bin").write_bytes(b"c" * 1000)
    else:
        (target / MANIFEST).unlink()
    before = tree(target)
    manifest = write_folder(target, FILES)
    assert check_folder(target) == []
    assert json.loads((target / MANIFEST).read_text()) == manifest
    (evidence,) = [path for path in tmp_path.iterdir() if path != target]
    assert evidence.name.startswith("step-00000040.broken-")
    assert tree(evidence) == before


def test_an_empty_folder_is_no_evidence(tmp_path):
    (tmp_path / "a").mkdir()
    write_folder(tmp_path / "a", FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert check_folder(tmp_path / "a") == []


def test_a_file_in_the_way_of_a_folder_is_not_touched(tmp_path):
    (tmp_path / "a").write_text("mine")
    with pytest.raises(WriteError, match="a file is in the way"):
        write_folder(tmp_path / "a", FILES)
    assert tree(tmp_path) == {"a": b"mine"}


@pytest.fixture
def frequent_switches():
    """Let threads take turns every 10 us, so that each looks while another moves."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize("writers", [2, 3])
@pytest.mark.parametrize("broken", [False, True])
def test_several_writers_of_one_folder(tmp_path, broken, writers):
    """All come to their rename at the same instant; one content wins whole."""
    for number in range(100):
        target, meet = tmp_path / str(number), threading.Barrier(writers, timeout=30)
        if broken:
            write_folder(target, {"x": [b"old"]})
            (target / "x").write_bytes(b"bad")

        def write(content, target=target, meet=meet):
            calls = itertools.count()

            def rename(source, to):
                if next(calls) == 0:
                    meet.wait()
                os.replace(source, to)

            disk = Disk(rename=rename, fsync=lambda _: None, fsync_folder=lambda _: None)
            return write_folder(target, {"x": [content]}, disk=disk)

        with ThreadPoolExecutor(writers) as pool:
            results = list(pool.map(write, [bytes([n]) * 1000 for n in range(writers)]))
        assert check_folder(target) == []
        if writers == 2:  # a third one may replace what the first has just reported
            assert results[0] == results[1] == json.loads((target / MANIFEST).read_text())
        assert len(list(tmp_path.glob(f"{number}.broken-*"))) == broken
        assert not list(tmp_path.glob(".*"))


def test_two_writers_of_one_file(tmp_path):
    path, contents = tmp_path / "a", (b"1" * 30_000, b"2" * 30_000)
    write_file(path, contents[0])
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(write_file, path, contents[n % 2]) for n in range(40)]
        while not all(job.done() for job in jobs):
            assert path.read_bytes() in contents
        for job in jobs:
            job.result()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_folder_is_renamed_durably_before_it_is_emptied(tmp_path):
    write_folder(tmp_path / "a", FILES)
    seen = []

    def fsync_folder(path):
        (aside,) = path.iterdir()
        seen.append((path, aside.name[:6], check_folder(aside)))

    remove_folder(tmp_path / "a", disk=Disk(fsync_folder=fsync_folder))
    assert seen == [(tmp_path, ".gone-", [])]
    assert tree(tmp_path) == {}


def test_removing_never_follows_a_link(tmp_path):
    mine, inside = tmp_path / "mine", tmp_path / "inside"
    write_folder(mine, FILES)
    inside.mkdir()
    (inside / "link").symlink_to(mine)
    (tmp_path / "link").symlink_to(mine)
    remove_folder(inside)
    remove_folder(tmp_path / "link")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert files_in(mine) == CONTENT


def test_removing_what_is_not_there_or_cannot_go(tmp_path):
    with pytest.raises(WriteError, match="No such file"):
        remove_folder(tmp_path / "a")
    write_folder(tmp_path / "a", FILES)
    with pytest.raises(WriteError, match="Read-only"):
        remove_folder(tmp_path / "a", disk=failing("rename", oserror(errno.EROFS)))
    assert check_folder(tmp_path / "a") == []


def test_sweep_removes_only_what_writers_leave(tmp_path):
    mine, run = tmp_path / "mine", tmp_path / "run"
    for folder in (mine, run):
        folder.mkdir()
        (folder / "kept").write_text("kept")
    stamp = "-4242-0123abcd"
    left = [f".tmp-a{stamp}", f".gone-b{stamp}", f".tmp-c{stamp}", f".tmp-link{stamp}"]
    (run / left[0]).mkdir()
    (run / left[0] / "link").symlink_to(mine)
    (run / left[0] / "half").write_text("half")
    (run / left[1]).symlink_to(mine)
    (run / left[2]).write_text("half")
    (run / left[3]).symlink_to(mine / "kept")
    for name in (".tmp-notes", ".git", ".gone-fishing", f"x.tmp-a{stamp}"):
        (run / name).write_text("the user's own")
    assert [path.name for path in leftovers(run)] == sorted(left)
    assert sweep(run) == sorted(left)
    assert sorted(p.name for p in run.iterdir()) == [
        ".git",
        ".gone-fishing",
        ".tmp-notes",
        "kept",
        f"x.tmp-a{stamp}",
    ]
    assert tree(mine) == {"kept": b"kept"}
    assert sweep(run) == []
    assert sweep(tmp_path / "missing") == []


KILLED = """
import os, sys
from pathlib import Path
from hotloop.core.storage.files import Disk, remove_folder, write_file, write_folder
what, folder = sys.argv[1], Path(sys.argv[2])
def die(source, target):
    if what == "remove":
        os.replace(source, target)
    os._exit(7)
disk = Disk(rename=die)
if what == "file":
    write_file(folder / "a", "x", disk=disk)
elif what == "folder":
    write_folder(folder / "a", {"x": [b"x"]}, disk=disk)
else:
    remove_folder(folder / "old", disk=disk)
"""


@pytest.mark.parametrize("what", ["file", "folder", "remove"])
def test_sweep_knows_what_a_killed_writer_left(tmp_path, what):
    """Another process dies at its rename, or right after it, without any clean-up."""
    write_folder(tmp_path / "old", FILES)
    assert subprocess.run([sys.executable, "-c", KILLED, what, str(tmp_path)]).returncode == 7
    (left,) = [path.name for path in tmp_path.iterdir() if path.name != "old"]
    assert sweep(tmp_path) == [left]


def test_a_probe_leaves_nothing(tmp_path):
    probe_folder(tmp_path / "new")
    assert tree(tmp_path) == {"new": None}
    assert free_bytes(tmp_path) > 0


@pytest.mark.parametrize("call", ["write", "fsync", "fsync_folder"])
def test_a_probe_fails_where_writing_would(tmp_path, call):
    with pytest.raises(WriteError, match="free some space"):
        probe_folder(tmp_path, disk=failing(call, oserror(errno.ENOSPC)))
    assert tree(tmp_path) == {}


def test_a_probe_finds_a_disk_that_loses_bytes(tmp_path):
    lossy = Disk(write=lambda stream, data: stream.write(bytes(len(data))))
    with pytest.raises(WriteError, match="gave back other bytes"):
        probe_folder(tmp_path, disk=lossy)
    assert tree(tmp_path) == {}
