"""A script in a process that changes no file: where it may write, and what it finds."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.tuning.test_canary_trial import digests

from hotloop.observe.experiments import shielded_script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")


def test_where_writes_are_denied_a_log_is_opened_and_goes_nowhere(tmp_path: Path):
    program = """
    import os, sys
    from pathlib import Path
    from hotloop.observe.experiments.shield import shield
    from hotloop.observe.whatif.without_one_cost import Patches
    from hotloop.observe.experiments.shielded_script import _let_denied_writes_go_nowhere
    assert shield(Path(sys.argv[1]), []) == "denied"
    _let_denied_writes_go_nowhere(Patches())
    os.makedirs("out/deep", exist_ok=True)
    Path("out/deep/log.txt").write_text("new")
    Path("log.txt").write_text("new")
    with open("other.txt", "x") as other:
        other.write("new")
    Path(sys.argv[1], "own.txt").write_text("new")
    assert Path("log.txt").read_text() == "old"
    for refused in (lambda: open("no/such.txt", "w"), lambda: os.mkdir("no/folder")):
        try:
            refused()
        except FileNotFoundError:
            continue
        raise AssertionError("a folder that is not there was taken for a denied one")
    Path("absent.txt").read_text()
    """
    work, scratch = tmp_path / "work", tmp_path / "scratch"
    work.mkdir()
    scratch.mkdir()
    (work / "log.txt").write_text("old")
    before = digests(work)
    argv = [sys.executable, "-c", textwrap.dedent(program), str(scratch)]
    done = subprocess.run(argv, cwd=work, capture_output=True, text=True, timeout=60)
    assert "'absent.txt'" in done.stderr.splitlines()[-1], done.stderr
    assert (digests(work), (scratch / "own.txt").read_text()) == (before, "new")


def test_what_the_arguments_name_may_be_written_to(tmp_path: Path):
    script = ["train.py", "--out=/var/tmp/not-there/run", "deep/er", "steps=10", "/dev/null"]
    folders = shielded_script._folders(script, tmp_path)
    assert folders == [tmp_path, Path.home(), Path("/tmp"), Path("/var/tmp"), tmp_path]


def test_what_was_compiled_before_is_read_where_writes_are_thrown_away(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))
    found = {}
    for covers in (True, False):
        monkeypatch.setattr(shielded_script, "can_cover", lambda *_, covers=covers, **__: covers)
        found[covers] = shielded_script.variables(("train.py",), tmp_path)
    assert found[True]["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "compiled")
    assert found[False]["TORCHINDUCTOR_CACHE_DIR"].startswith(found[False]["TMPDIR"])
