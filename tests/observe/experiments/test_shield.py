"""The shield of an experiment: whatever a process writes, no file of the user changes."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")

PROGRAM = """
import json, os, sys
from pathlib import Path
from hotloop.observe.experiments.shield import shield

scratch, folders = Path(sys.argv[1]), [Path(folder) for folder in sys.argv[2:]]
seen = {"how": shield(scratch, folders)}
def tried(name, act):
    try:
        seen[name] = act()
    except OSError as error:
        seen[name] = type(error).__name__
def rewritten():
    Path("kept.txt").write_text("new")
    return Path("kept.txt").read_text()
def moved():
    os.makedirs("a/b", exist_ok=True)
    os.replace("moved.txt", "a/b/moved.txt")
    return sorted(os.listdir("a/b"))
tried("rewritten", rewritten)
tried("moved", moved)
tried("removed", lambda: os.remove("removed.txt"))
tried("truncated", lambda: os.truncate("cut.txt", 0))
tried("outside", lambda: Path(sys.argv[1]).with_name("outside.txt").write_text("x"))
tried("child", lambda: os.system("echo new > kept.txt 2>/dev/null; echo x > ../outside.txt") and 0)
(scratch / "seen.json").write_text(json.dumps(seen))
"""
FILES = ("kept.txt", "moved.txt", "removed.txt", "cut.txt")


@pytest.mark.parametrize("covered", [True, False])
def test_no_file_of_the_user_changes(tmp_path: Path, covered: bool):
    work, scratch = tmp_path / "work", tmp_path / "scratch"
    work.mkdir()
    scratch.mkdir()
    for name in FILES:
        (work / name).write_text("old")
    folders = [str(work)] if covered else []

    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(scratch), *folders], cwd=work, check=True, timeout=60
    )

    seen = json.loads((scratch / "seen.json").read_text())
    assert {path.name: path.read_text() for path in work.iterdir()} == dict.fromkeys(FILES, "old")
    assert not (tmp_path / "outside.txt").exists()
    assert seen["outside"] == "PermissionError"
    if seen["how"] == "overlay":  # the script sees its own writes
        assert covered
        assert (seen["rewritten"], seen["moved"]) == ("new", ["moved.txt"])
    else:
        assert seen["rewritten"] == seen["removed"] == seen["truncated"] == "PermissionError"


def test_whether_a_folder_can_be_covered_is_told_without_covering_it(tmp_path: Path):
    work, scratch = tmp_path / "work", tmp_path / "scratch"
    work.mkdir()
    scratch.mkdir()
    (work / "kept.txt").write_text("old")
    code = PROGRAM.replace("seen = {", "from hotloop.observe.experiments.shield import can_cover\n"
                           "can = can_cover(folders)\nseen = {\"can\": can, ")  # fmt: skip
    argv = [sys.executable, "-c", code, str(scratch), str(work)]
    subprocess.run(argv, cwd=work, check=True, timeout=60)
    seen = json.loads((scratch / "seen.json").read_text())
    assert seen["can"] == (seen["how"] == "overlay")
    assert (work / "kept.txt").read_text() == "old"


def test_the_scratch_folder_may_lie_below_a_covered_one(tmp_path: Path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for name in FILES:
        (tmp_path / name).write_text("old")

    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(scratch), str(tmp_path)],
        cwd=tmp_path,
        check=True,
        timeout=60,
    )

    assert (scratch / "seen.json").exists()
    assert (tmp_path / "kept.txt").read_text() == "old"


REACH = """
import json, socket, sys
from pathlib import Path
from hotloop.observe.experiments.shield import shield

scratch, outside, folders = Path(sys.argv[1]), int(sys.argv[2]), [Path(f) for f in sys.argv[3:]]
how = shield(scratch, folders, network=False)
def reached(port):
    with socket.socket() as client:
        client.settimeout(20)
        try:
            client.connect(("127.0.0.1", port))
        except OSError:
            return False
        return True
with socket.socket() as server:
    server.bind(("127.0.0.1", 0))
    server.listen()
    own = reached(server.getsockname()[1])
(scratch / "seen.json").write_text(json.dumps({"how": how, "own": own, "others": reached(outside)}))
"""


@pytest.mark.parametrize("covered", [True, False])
def test_without_a_network_no_server_beyond_the_process_is_reached(tmp_path: Path, covered: bool):
    """The server of this test stands for any other machine: a packet to it leaves the process."""
    work, scratch = tmp_path / "work", tmp_path / "scratch"
    work.mkdir()
    scratch.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        folders = [str(work)] if covered else []
        argv = [sys.executable, "-c", REACH, str(scratch), port, *folders]
        subprocess.run(argv, cwd=work, check=True, timeout=60)

    seen = json.loads((scratch / "seen.json").read_text())
    if seen["how"] == "denied" and seen["others"]:
        pytest.skip("Landlock denies connections from Linux 6.7 on")
    assert not seen["others"]
    assert seen["own"] == (seen["how"] == "overlay")  # its own loopback device works
