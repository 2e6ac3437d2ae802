"""`hotloop doctor --baseline --fail-on` as a CI job runs it."""

import json
from pathlib import Path

import pytest
from tests.preloaded import Preloaded

from hotloop.cli.main import main

SCRIPT = """\
import sys
import time

import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(16):
    until = time.perf_counter() + {seconds}  # busy: no finding, and no doubt of its length
    while time.perf_counter() < until:
        pass
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
{end}
"""
QUICK = ("doctor", "--full", "--experiments", "0")


@pytest.fixture
def doctor(tmp_path: Path, preloaded: Preloaded):
    """Run the doctor on a script with a step of so many seconds; return what it did."""

    def start(*options: str, step: float = 0.001, end: str = "", name: str = "train.py"):
        (tmp_path / name).write_text(SCRIPT.format(seconds=step, end=end))
        return preloaded.run(*QUICK, *options, name, cwd=tmp_path)

    return start


@pytest.fixture
def baseline(doctor, tmp_path) -> Path:
    assert doctor("--json", "base.json").returncode == 0
    return tmp_path / "base.json"


def test_a_step_of_many_times_the_length_is_exit_1(doctor, baseline, tmp_path):
    seen = doctor(
        *("--baseline", "base.json", "--json", "now.json"),
        *("--fail-on", "step_time>+10% start>+9000%"),
        step=0.1,
    )
    assert seen.returncode == 1
    assert "compared with base.json" in seen.stderr
    assert "REGRESSED step_time>+10%: 1" in seen.stderr
    assert "held start>+9000%" in seen.stderr
    written = json.loads((tmp_path / "now.json").read_text())["comparison"]
    assert [one["outcome"] for one in written["conditions"]] == ["REGRESSED", "held"]
    (step,) = (one for one in written["figures"] if one["name"] == "step_time")
    assert step["verdict"] == "SLOWER"
    assert step["interval"][0] > 1.0


def test_an_equal_run_is_exit_0_and_so_is_a_comparison_without_conditions(doctor, baseline):
    seen = doctor("--baseline", "base.json", "--fail-on", "step_time>+9000%")
    assert seen.returncode == 0
    assert "held step_time>+9000%" in seen.stderr
    slower = doctor("--baseline", "base.json", step=0.1)
    assert slower.returncode == 0
    assert "SLOWER" in slower.stderr


def test_what_is_undecided_fails_only_if_asked(doctor, baseline):
    words = ("--baseline", "base.json", "--fail-on", "step_time>+10%")
    seen = doctor(*words, name="other.py")
    assert seen.returncode == 0
    assert "script: train.py in base.json, other.py now" in " ".join(seen.stderr.split())
    assert "UNKNOWN step_time>+10%: cannot be told: the runs differ in script" in seen.stderr
    assert doctor(*words, "--fail-on-unknown", name="other.py").returncode == 1


@pytest.mark.parametrize(
    ("end", "code"),
    [("sys.exit(3)", 3), ("raise ValueError('no')", 1), ("raise KeyboardInterrupt", -2)],
)
def test_a_script_that_failed_keeps_its_exit_code(doctor, baseline, end, code):
    seen = doctor("--baseline", "base.json", "--fail-on", "step_time>+10%", step=0.1, end=end)
    assert seen.returncode == code
    assert "REGRESSED" not in seen.stderr
    assert "not compared with the baseline: the run did not come to a good end" in seen.stderr


def test_a_script_that_exits_with_0_or_is_stopped_is_judged(doctor, baseline):
    words = ("--baseline", "base.json", "--fail-on", "step_time>+10%")
    assert doctor(*words, step=0.1, end="sys.exit(0)").returncode == 1
    assert doctor(*words, step=0.1, end="sys.exit()").returncode == 1


def test_a_stopped_script_is_judged(tmp_path, preloaded, baseline):
    text = SCRIPT.format(seconds=0.1, end="").replace("(16)", "(10**6)")
    (tmp_path / "train.py").write_text(text)
    words = ("doctor", "--steps", "14", "--experiments", "0", "--baseline", "base.json")
    seen = preloaded.run(*words, "--fail-on", "step_time>+10%", "train.py", cwd=tmp_path)
    assert seen.returncode == 1
    assert "REGRESSED" in seen.stderr


def test_a_comparison_that_could_not_be_made_does_not_pass(doctor, baseline, tmp_path):
    (tmp_path / "folder").mkdir()
    words = ("--baseline", "base.json", "--fail-on", "step_time>+9000%", "--json", "folder")
    assert doctor(*words).returncode == 70


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--fail-on", "step_tme>+10%", "--baseline", "b.json"], 2, "did you mean step_time?"),
        (["--fail-on", "step_time>+10%"], 2, "--fail-on needs the run to compare with"),
        (
            ["--no-rules", "--fail-on", "new-findings>=warn", "--baseline", "b.json"],
            2,
            "--no-rules leaves out the findings",
        ),
        (["--fail-on-unknown"], 2, "--fail-on-unknown needs conditions"),
        (["--baseline", "nowhere.json"], 2, "there is no such file or folder; write it with"),
        (["--baseline", "old.json"], 65, "an older version of hotloop wrote it"),
        (["--baseline", "text.json"], 65, "text.json"),
    ],
)
def test_bad_options_are_refused_before_the_script_runs(
    options, code, said, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("old.json").write_text(json.dumps({"schema": 1, "findings": [], "step_time": None}))
    Path("text.json").write_text("no JSON")
    Path("train.py").write_text("open('ran', 'w')\n")
    assert main(["doctor", *options, "train.py"]) == code
    assert said in capsys.readouterr().err
    assert not Path("ran").exists()


def test_a_recipe_has_no_baseline(capsys):
    assert main(["doctor", "--baseline", "base.json", "char-lm"]) == 2
    assert "--baseline is for a script or the run folder of one" in capsys.readouterr().err


def test_run_folders_are_compared_without_running_anything(doctor, tmp_path, capsys):
    assert doctor("--out", "one").returncode == 0
    assert doctor("--out", "two", step=0.1).returncode == 0
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    condition = ["--fail-on", "step_time>+10%"]
    assert main(["doctor", "--baseline", one, *condition, two]) == 1
    assert "REGRESSED step_time>+10%" in capsys.readouterr().out
    assert main(["doctor", "--baseline", two, *condition, one]) == 0
    assert "held step_time>+10%" in capsys.readouterr().out
    assert main(["doctor", "--baseline", one, "--baseline", two, two]) == 0
    assert "compared with 2 runs" in capsys.readouterr().out
    assert main(["doctor", "--baseline", one, "--baseline", one, two]) == 2
    assert "are the same run: each must be a run of its own" in capsys.readouterr().err
