"""The order of writes, and what a power loss leaves. Faults stand in test_files_faults.py."""

import itertools
import json
import os
import random
import shutil
from pathlib import Path

import pytest

from hotloop.core.errors import WriteError
from hotloop.core.storage.files import (
    DISK,
    MANIFEST,
    Disk,
    check_folder,
    make_folder,
    remove_folder,
    write_file,
    write_folder,
    write_json,
)
from hotloop.core.storage.journal import Journal

FILES = {"model.bin": [b"a" * 700, b"b" * 300], "state.json": [b'{"step": 7}']}
CONTENT = {name: b"".join(chunks) for name, chunks in FILES.items()}


class Recorded:
    """A disk that works and keeps a log of what it was asked."""

    def __init__(self):
        self.log, self._open = [], {}
        self.disk = Disk(
            write=self._write, fsync=self._fsync, fsync_folder=self._fsync_folder, rename=self._ren
        )

    def _write(self, stream, data):
        self._open[stream.fileno()] = Path(stream.name)
        self.log.append(("write", Path(stream.name), bytes(data)))
        stream.write(data)

    def _fsync(self, handle):
        self.log.append(("fsync", self._open[handle]))
        os.fsync(handle)

    def _fsync_folder(self, path):
        self.log.append(("fsync_folder", path))
        DISK.fsync_folder(path)

    def _ren(self, source, target):
        self.log.append(("rename", source, target))
        os.replace(source, target)


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def files_in(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST}


def test_a_file_is_synced_before_it_gets_its_name(tmp_path):
    recorded, path = Recorded(), tmp_path / "run.json"
    write_file(path, "new", disk=recorded.disk)
    temp = recorded.log[0][1]
    assert temp.parent == tmp_path
    assert temp.name.startswith(".tmp-run.json-")
    assert recorded.log == [
        ("write", temp, b"new"),
        ("fsync", temp),
        ("rename", temp, path),
        ("fsync_folder", tmp_path),
    ]
    assert tree(tmp_path) == {"run.json": b"new"}


def test_a_folder_is_synced_file_by_file_before_it_gets_its_name(tmp_path):
    recorded, target = Recorded(), tmp_path / "step-7"
    manifest = write_folder(target, FILES, disk=recorded.disk)
    temp = recorded.log[0][1].parent
    assert temp.parent == tmp_path
    assert [(op[0], *op[1:2]) for op in recorded.log] == [
        ("write", temp / "model.bin"),
        ("write", temp / "model.bin"),
        ("fsync", temp / "model.bin"),
        ("write", temp / "state.json"),
        ("fsync", temp / "state.json"),
        ("write", temp / MANIFEST),
        ("fsync", temp / MANIFEST),
        ("fsync_folder", temp),
        ("rename", temp),
        ("fsync_folder", tmp_path),
    ]
    assert files_in(target) == CONTENT
    assert json.loads((target / MANIFEST).read_text()) == manifest
    assert {name: entry["bytes"] for name, entry in manifest["files"].items()} == {
        "model.bin": 1000,
        "state.json": 11,
    }


def test_new_parents_are_made_durable_too(tmp_path):
    recorded = Recorded()
    make_folder(tmp_path / "a" / "b", disk=recorded.disk)
    assert recorded.log == [("fsync_folder", tmp_path), ("fsync_folder", tmp_path / "a")]
    make_folder(tmp_path / "a" / "b", disk=recorded.disk)
    assert len(recorded.log) == 2
    with pytest.raises(WriteError, match="in the way"):
        make_folder(Path(write_and_return(tmp_path / "file")) / "b")


def write_and_return(path):
    path.write_bytes(b"mine")
    return path


@pytest.mark.parametrize("chunk", [bytearray(b"xy"), memoryview(b"xy"), memoryview(b"xyxy")[:2]])
def test_chunks_may_be_any_buffer(tmp_path, chunk):
    write_folder(tmp_path / "a", {"x": [chunk, b""], "empty": [b""]})
    assert files_in(tmp_path / "a") == {"x": b"xy", "empty": b""}
    assert check_folder(tmp_path / "a") == []


def test_names_that_lead_out_of_the_folder_are_our_own_mistake(tmp_path):
    with pytest.raises(AssertionError, match="plain file names"):
        write_folder(tmp_path / "a", {"../x": [b""]})


def test_json_is_refused_before_anything_is_touched(tmp_path):
    write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert tree(tmp_path) == {"a.json": b'{\n "x": 1\n}\n'}


def test_file_systems_that_cannot_sync_folders_are_used_all_the_same():
    if not Path("/proc/self").is_dir():
        pytest.skip("no /proc")
    handle = os.open("/proc", os.O_RDONLY)
    with pytest.raises(OSError, match="Invalid argument"):
        os.fsync(handle)
    os.close(handle)
    DISK.fsync_folder(Path("/proc"))


def test_a_journal_syncs_when_asked_and_its_folder_when_new(tmp_path):
    recorded, path = Recorded(), tmp_path / "events.jsonl"
    for _ in range(2):
        journal = Journal(path, disk=recorded.disk)
        journal.append(["1"])
        journal.append(["2"], sync=True)
        journal.close()
    once = [("write", path, b"1\n"), ("write", path, b"2\n"), ("fsync", path)]
    assert recorded.log == [("fsync_folder", tmp_path), *once, *once]


class Node:
    """A file or folder, as the system shows it and as the platter may have it."""

    def __init__(self):
        self.data, self.safe = b"", b""  # of a file: written, synced
        self.history = []  # of a folder: its entries, from the last sync to now

    @property
    def entries(self):
        return self.history[-1] if self.history else {}

    def set(self, **entries):
        merged = {**self.entries, **entries}
        self.history = self.history or [{}]
        self.history.append({name: node for name, node in merged.items() if node is not None})


class Platter:
    """Replays a log of `Recorded`, then loses the power in one of several ways."""

    FATES = ("nothing", "names", "half", "zeros", "all", *range(6))  # a number: drawn at random

    def __init__(self, root):
        self.root, self.top = root, Node()
        self.top.history = [{}]

    def node(self, path):
        node = self.top
        for name in path.relative_to(self.root).parts:
            if name not in node.entries:
                node.set(**{name: Node()})
            node = node.entries[name]
        return node

    def hold(self, path, data):
        """Begin with a file that is safe."""
        self.node(path).data = self.node(path).safe = data
        self.top.history = [self.top.entries]

    def replay(self, log):
        for kind, path, *rest in log:
            node = self.node(path)
            if kind == "mkdir":
                node.history = [{}]
            elif kind == "write":
                node.data += rest[0]
            elif kind == "fsync":
                node.safe = node.data
            elif kind == "fsync_folder":
                node.history = [node.entries]
            else:
                self.node(rest[0].parent).set(**{rest[0].name: node})
                self.node(path.parent).set(**{path.name: None})
        return self

    def lose_power(self, fate, folder):
        """Write what is left into an empty folder."""
        self._leave(self.top, fate, random.Random(f"{fate}"), folder)
        return folder

    def _leave(self, node, fate, draw, path):
        path.mkdir()
        kept = {"nothing": node.history[0]}.get(fate, node.entries)
        if isinstance(fate, int):
            kept = draw.choice(node.history)
        for name, child in kept.items():
            if child.history:
                self._leave(child, fate, draw, path / name)
            else:
                lost = child.data[len(child.safe) :]
                how = draw.choice(Platter.FATES[:5]) if isinstance(fate, int) else fate
                rest = {"half": lost[: len(lost) // 2], "zeros": bytes(len(lost)), "all": lost}
                (path / name).write_bytes(child.safe + rest.get(how, b""))


def outcomes(root, log, scratch, *, old=None):
    """Yield (prefix length, fate, folder) for every prefix of a log and every fate."""
    for length, fate in itertools.product(range(len(log) + 1), Platter.FATES):
        platter = Platter(root)
        for path, data in (old or {}).items():
            platter.hold(path, data)
        folder = platter.replay(log[:length]).lose_power(fate, scratch / "now")
        yield length, fate, folder
        shutil.rmtree(folder)


def file_faults(root, log, scratch):
    """Return the outcomes in which a replaced file is neither old nor new, or new but not kept."""
    return [
        (length, fate)
        for length, fate, now in outcomes(root, log, scratch, old={root / "a": b"old" * 99})
        if (now / "a").read_bytes() not in ((b"old" * 99,) * (length < len(log)) + (b"new!" * 99,))
    ]


def folder_faults(root, log, scratch):
    faults = []
    for length, fate, now in outcomes(root, log, scratch):
        target = now / "runs" / "step-7"
        there = target.exists()
        sound = there and check_folder(target) == [] and files_in(target) == CONTENT
        if there != sound or (length == len(log) and not there):
            faults.append((length, fate))
    return faults


@pytest.fixture
def places(tmp_path):
    for name in ("disk", "scratch"):
        (tmp_path / name).mkdir()
    return tmp_path / "disk", tmp_path / "scratch"


def log_of_file(root):
    recorded = Recorded()
    (root / "a").write_bytes(b"old" * 99)
    write_file(root / "a", b"new!" * 99, disk=recorded.disk)
    return recorded.log


def log_of_folder(root):
    recorded = Recorded()
    write_folder(root / "runs" / "step-7", FILES, disk=recorded.disk)
    return [("mkdir", root / "runs"), *recorded.log]  # it is made before anything is recorded


def test_power_loss_leaves_the_old_file_or_the_new(places):
    root, scratch = places
    assert file_faults(root, log_of_file(root), scratch) == []


def test_power_loss_leaves_a_whole_folder_or_none(places):
    root, scratch = places
    assert folder_faults(root, log_of_folder(root), scratch) == []


@pytest.mark.parametrize("left_out", ["fsync", "fsync_folder"])
def test_the_model_finds_a_missing_sync(places, left_out):
    """So that the two tests above prove something."""
    root, scratch = places
    for log, faults in ((log_of_file(root), file_faults), (log_of_folder(root), folder_faults)):
        for skipped in [n for n, op in enumerate(log) if op[0] == left_out]:
            assert faults(root, log[:skipped] + log[skipped + 1 :], scratch)


def test_power_loss_keeps_every_synced_line_of_a_journal(places):
    root, scratch = places
    recorded, path = Recorded(), root / "events.jsonl"
    journal = Journal(path, disk=recorded.disk)
    lines = [json.dumps({"step": number}) for number in range(12)]
    for number, line in enumerate(lines):
        journal.append([line], sync=number % 4 == 3)
    journal.close()
    log = [("write", path, b""), *recorded.log]  # it is made before its folder is synced
    for length, _fate, now in outcomes(root, log, scratch):
        synced = 4 * sum(op[0] == "fsync" for op in log[:length])
        if synced or (now / path.name).exists():
            Journal(now / path.name).close()
            found = (now / path.name).read_text().splitlines()
            assert found == lines[: len(found)]
            assert len(found) >= synced


def test_power_loss_while_removing_brings_no_half_back(places):
    root, scratch = places
    made, removed = Recorded(), Recorded()
    write_folder(root / "step-7", FILES, disk=made.disk)
    remove_folder(root / "step-7", disk=removed.disk)
    assert [op[0] for op in removed.log] == ["rename", "fsync_folder"]
    for length, _fate, now in outcomes(root, made.log + removed.log, scratch):
        target = now / "step-7"
        assert not target.exists() or check_folder(target) == []
        assert length < len(made.log + removed.log) or not target.exists()
