import io
import json
import signal
import subprocess
import sys

import pytest
from rich.console import Console
from tests.monitor.conftest import Nvml, made, session, steps  # noqa: F401 - a fixture

from hotloop.cli.main import main
from hotloop.cli.monitor import run

SHORT = ("--duration", "0.3", "--interval", "0.1")


def test_the_whole_machine_becomes_lines_files_and_a_summary(tmp_path, capsys):
    files = [tmp_path / name for name in ("F.json", "F.html")]
    words = zip(("--output", "--html"), map(str, files), strict=True)
    assert run([*SHORT, *(word for pair in words for word in pair)], nvml=Nvml()) == 0
    captured = capsys.readouterr()
    assert captured.out.count("GPU 0 97 % 300 W") == 3
    assert "ended: the 0.3 s are over" in captured.out
    assert "\x1b" not in captured.out
    assert captured.err.split() == [str(file) for file in files]
    value = json.loads(files[0].read_text())
    assert (value["samples_taken"], value["watched"]) == (3, "this machine")
    assert value["sampling_cpu_percent_of_one_core"] > 0
    assert "what hotloop monitor saw" in files[1].read_text()


def test_the_plots_become_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    assert run([*SHORT, "-q", "--png", str(tmp_path / "F.png")]) == 0
    assert (tmp_path / "F.png").read_bytes().startswith(b"\x89PNG")


def test_a_finished_run_is_shown_once_and_said_to_be_over(made, capsys):  # noqa: F811
    path = made("demo", [session(), *steps(1, 100)], alive=False, status="complete")
    assert main(["monitor", str(path), *SHORT]) == 0
    said = capsys.readouterr().out
    assert said.count("complete step 100 of 100") == 1
    assert "ended: the run is complete" in said


def test_a_running_run_is_rated_by_its_ceiling(made, tmp_path, capsys):  # noqa: F811
    out = tmp_path / "F.json"
    path = made("demo", [session(), *steps(1, 20)])
    assert run([str(path), *SHORT, "--output", str(out), "-q"]) == 0
    assert capsys.readouterr().out == ""
    value = json.loads(out.read_text())
    assert value["watched"] == "run demo"
    assert value["assessment"]["throughput"] == "excellent"
    assert value["run"]["phase"] == "training"


def test_quiet_shows_nothing(capsys):
    assert run([*SHORT, "-q"]) == 0
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_a_terminal_is_drawn_in_place():
    out = Console(file=io.StringIO(), width=80, height=24, force_terminal=True, no_color=True)
    ten = ("--duration", "1", "--interval", "0.1")  # a busy machine may miss some
    assert run([*ten], nvml=Nvml(), console=out) == 0
    said = out.file.getvalue()
    assert "\x1b[1A" in said, "it goes up to draw over what stands there"
    assert said.count("hotloop monitor: this machine") >= 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--pid", "1073741824"], 2, "no process has the id"),
        (["nowhere"], 2, "no run folder"),
        (["nowhere", "--pid", "1"], 2, "not both"),
        (["--interval", "0"], 2, "at least 0.1 s"),
        (["--interval", "nan"], 2, "at least 0.1 s"),
        (["--duration", "0.5"], 2, "no sample would be taken"),
        (["--background"], 2, "name a file with --output"),
        (["--background", "--output", "F.json"], 2, "would never end"),
        ([*SHORT, "-q", "--output", "no/such/F.json"], 73, "make its folder first"),
    ],
)
def test_what_makes_no_sense_is_refused(words, code, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["monitor", *words]) == code
    assert said in capsys.readouterr().err


def test_ctrl_c_ends_it_at_once_with_the_summary():
    process = subprocess.Popen(
        [sys.executable, "-m", "hotloop", "monitor", "--interval", "0.1"],
        stdout=subprocess.PIPE,
        text=True,
    )
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=20)
    assert "cpu" in first
    assert "ended: Ctrl-C" in rest
    assert process.returncode == 130
