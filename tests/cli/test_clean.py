import io
import json
import os
import re

import pytest
from rich.console import Console
from tests.cleanup.disks import checkpoint, environment, hold, made

from hotloop.cleanup.tokens import lock_of
from hotloop.cli import clean
from hotloop.cli.main import main
from hotloop.core.storage.rundir import RunDir


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Runs of three kinds, and caches: hotloop's and that of the hub."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    monkeypatch.chdir(tmp_path)
    old = made(tmp_path / "runs" / "old [bold]\x1b[31m", best=20)
    for step in (10, 20, 30, 40, 1000):
        checkpoint(old, step)
    (RunDir(old).checkpoints / "step-00000035.broken-0123abcd").mkdir()
    busy = made(tmp_path / "runs" / "busy", status="running")
    for step in (1, 2, 3):
        checkpoint(busy, step)
    hold(busy)
    for n in range(3):
        made(tmp_path / "runs" / f"bare{n}")
    own = environment(tmp_path)
    tokens = own.cache / "tokens" / ("0" * 32)
    tokens.mkdir(parents=True)
    (tokens / "x").write_bytes(b"x" * 2048)
    os.utime(tokens / "x", (1e9, 1e9))
    own.hub.mkdir(parents=True)
    return own


def shown(own, width, *args):
    out = Console(file=io.StringIO(), width=width, highlight=False)
    assert clean.run(["runs", *args], console=out, environment=own) == 0
    return out.file.getvalue()


def old(tmp_path):
    (path,) = (tmp_path / "runs").glob("old*/checkpoints")
    return sorted(int(step[5:]) for step in os.listdir(path) if "." not in step)


@pytest.mark.parametrize("args", [[], ["--dry-run"]])
def test_nothing_goes_unless_yes_is_said(own, tmp_path, args):
    said = shown(own, 200, *args)
    assert re.search(r"old \[bold\]\?\[31m +complete +\S+ KiB +\S+ KiB: steps 10, 30 ", said)
    assert "step 20 (best)" in said
    assert "steps 40, 1,000 (one of the 2 newest)" in said
    assert "step-00000035.broken-0123abcd (broken: evidence)" in said
    assert re.search(rf"busy +running +.* process {os.getpid()} on \S+ is at it", said)
    assert "3 more run folders without checkpoints" in said
    assert "tokens 00000000" in said
    assert "hf cache rm REPO" in said
    assert "can go; nothing was removed: --yes removes it" in said
    assert old(tmp_path) == [10, 20, 30, 40, 1000]


def test_yes_removes_what_can_go_and_says_how_much(own, tmp_path):
    said = shown(own, 200, "--yes", "--caches", "30", "--json", "out.json")
    value = json.loads((tmp_path / "out.json").read_text())
    assert (value["schema"], value["dry_run"], value["failed"]) == (1, False, [])
    assert [item["step"] for item in value["removed"]] == [10, 30, None]
    assert re.search(r"^removed \S+ KiB$", said, re.MULTILINE)
    assert old(tmp_path) == [20, 40, 1000]
    assert list((own.cache / "tokens").iterdir()) == []
    assert own.hub.is_dir()
    assert len(list((tmp_path / "runs" / "busy" / "checkpoints").iterdir())) == 3
    assert "nothing was removed: nothing can go" in shown(own, 200, "--yes")


def test_evidence_goes_when_it_is_asked_for(own, tmp_path):
    shown(own, 200, "--yes", "--broken")
    (path,) = (tmp_path / "runs").glob("old*/checkpoints")
    assert not list(path.glob("*.broken-*"))


@pytest.mark.parametrize("width", [1, 20, 40, 80, 99, 100, 200])
def test_every_width_can_be_read(own, width):
    said = shown(own, width)
    assert all(len(line) <= width for line in said.splitlines())
    words = re.sub(r"\s+", "", said)
    assert "steps10,30" in words or width >= 100
    assert "isatit" in words
    assert "\x1b" not in said


def test_a_dry_run_in_json_says_what_could_go(own, tmp_path, capsys):
    assert clean.run(["runs", "--json", "out.json"], environment=own) == 0
    value = json.loads((tmp_path / "out.json").read_text())
    going = [item for shelf in value["shelves"] for item in shelf["items"] if item["goes"]]
    assert value["can_go_bytes"] == sum(item["bytes"] for item in going) > 2000
    assert (value["dry_run"], value["removed"]) == (True, [])
    assert [cache["name"] for cache in value["caches"]] == ["Hugging Face hub"]
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "\x1b" not in captured.out


def test_a_run_that_is_taken_up_meanwhile_is_an_error_that_says_so(own, tmp_path, monkeypatch):
    real = clean.look

    def look(*args):
        found = real(*args)
        hold(next((tmp_path / "runs").glob("old*")))
        return found

    monkeypatch.setattr(clean, "look", look)
    with pytest.raises(clean.WriteError, match=r"not removed:\n.*is in use by process"):
        shown(own, 200, "--yes")
    assert old(tmp_path) == [10, 20, 30, 40, 1000]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["gone"], "gone is no folder"),
        (["--keep", "1"], "--keep 1: at least 2 checkpoints stay"),
        (["--caches", "-1"], "--caches -1: name a number of days"),
        (["--caches", "nan"], "--caches nan: name a number of days"),
        (["--yes", "--dry-run"], "not allowed with"),
    ],
)
def test_what_makes_no_sense_is_refused(args, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["clean", *args]) == 2
    assert said in capsys.readouterr().err


def test_what_tokenising_left_unfinished_is_shown_and_goes(own, tmp_path):
    room = tmp_path / "runs" / ".tokens [x]\x1b[31m.unfinished"
    room.mkdir()
    identity = {"format": 1, "tokenizer": "t", "data": []}
    (room / "identity.json").write_text(json.dumps(identity))
    lock = lock_of(room)
    lock.acquire()
    said = shown(own, 200)
    assert re.search(r"\.tokens \[x\]\?\[31m\.unfinished .* process \d+ on \S+ is at it", said)
    assert "\x1b" not in said
    lock.release()
    for width in (40, 200):
        words = " ".join(shown(own, width).split())
        assert "the same hotloop data tokenize goes on with it" in words
    assert room.is_dir()
    shown(own, 200, "--yes")
    assert not room.exists()


def test_with_nothing_at_all_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    said = shown(environment(tmp_path), 80)
    assert said == "nothing can go (see --keep, --broken and --caches)\n"
