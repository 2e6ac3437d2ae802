import contextlib
import io
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

import hotloop
from hotloop.cli.arguments.tuning import seconds_of
from hotloop.cli.main import main
from hotloop.core.errors import DataError, UsageError
from hotloop.core.storage.files import read_json
from hotloop.core.storage.rundir import RunDir
from hotloop.core.tuning_result import Tuned
from hotloop.jobs.request import read_plan

SLOW = """
import time
import torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, at):
        time.sleep(1e-3)
        return torch.full((8,), float(at % 7))

net = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(net.parameters())
for x in DataLoader(Slow(), batch_size=4):
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400), (" 2 MIN ", 120)]
)
def test_a_budget_is_a_time(text, seconds):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5m", "ten", "10 days", "1e3", "nan", "5mm"])
def test_other_budgets_are_refused(text):
    with pytest.raises(UsageError, match="expected a time like 90s, 10m or 1h"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ([], 2, "which recipe? There are: char-lm"),
        (["char-ml"], 2, "did you mean char-lm"),
        (["nowhere.py"], 2, "there is no script 'nowhere.py'"),
        (["--budget", "soon", "train.py"], 2, "--budget soon: expected a time like"),
        (["--budget", "soon", "char-lm"], 2, "--budget soon: expected a time like"),
        (["--allow", "anything", "train.py"], 2, "invalid choice: 'anything'"),
        (["--out", "used", "train.py"], 2, "used is not an empty folder; name another one"),
        (["--out", "used", "char-lm"], 2, "used is not an empty folder; name another one"),
        (["char-lm", "traning.lr=1"], 78, "did you mean training.learning_rate"),
        (["char-lm", "data.path=nowhere.txt"], 65, "nowhere.txt"),
    ],
)
def test_errors_name_what_was_expected(argv, code, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("pass")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine.txt").write_text("mine")
    assert main(["tune", *argv]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py", "used"]


def test_help_is_of_scripts_and_of_recipes(capsys):
    assert main(["tune", "--help"]) == 0
    said = capsys.readouterr().out
    assert "train.py [args]" in said
    assert "RECIPE key=value" in said


@pytest.mark.slow
def test_a_script_is_tuned_from_the_library_within_a_short_budget(tmp_path, monkeypatch, capfd):
    """All of it: the command line, trials, the doctor, the folder, read back."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SLOW)
    found = hotloop.tune("train.py", budget=6.0, out="run")
    said = capfd.readouterr()
    assert "\x1b" not in said.out + said.err
    assert "\r" not in said.out + said.err
    assert found.rows[0].name == "as it is"
    assert "losses equal" in found.rows[0].why
    assert found.plan == found.baseline
    assert found.said.startswith("nothing was tried: the budget was used up before sample-cache")
    assert f"hotloop tune: {found.said}" in " ".join(said.out.split())
    (edit,) = (edit for edit in found.edits if edit.rule.startswith("D28"))
    assert (edit.places[0].file, edit.places[0].line) == (str(tmp_path / "train.py"), 11)
    assert "train.py:11" in said.out
    assert Tuned.from_json(read_json(RunDir(tmp_path / "run").trials)) == found
    assert read_plan(tmp_path / "run") == found.plan
    assert "what only an edit can mend" in said.out
    assert "What only an edit can mend" in (tmp_path / "run" / "report.html").read_text()
    assert not [p for p in psutil.Process().children(recursive=True) if "train.py" in p.cmdline()]


def test_a_script_that_cannot_run_as_it_is_is_an_error_with_its_reason(tmp_path):
    (tmp_path / "train.py").write_text("raise RuntimeError('no data here')")
    argv = (sys.executable, "-m", "hotloop", "tune", "--out", "run", "train.py")
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == DataError.exit_code
    assert "it cannot be tried as it is: failed" in done.stderr
    assert "no data here" in done.stderr
    assert "Traceback" not in done.stderr
    assert RunDir(tmp_path / "run").read()["status"] == "failed"


def test_ctrl_c_ends_all_processes_and_keeps_the_folder(tmp_path):
    (tmp_path / "train.py").write_text("open('began', 'w').close()\nimport time\ntime.sleep(600)")
    argv = (sys.executable, "-m", "hotloop", "tune", "--out", "run", "train.py")
    process = subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        until = time.monotonic() + 120
        while not (tmp_path / "began").exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        below = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert out.startswith("hotloop tune: nothing was tried: stopped after ")
    assert "what was measured until then is kept" in err
    assert "Traceback" not in err
    assert len(below) >= 2  # the trial and what watches it
    assert psutil.wait_procs(below, timeout=10)[1] == []
    assert RunDir(tmp_path / "run").read()["status"] == "stopped"


@pytest.mark.parametrize("what", ["nowhere.py", "char-ml"])
def test_what_is_neither_script_nor_recipe_is_refused_before_a_process_is_started(what, tmp_path):
    with pytest.raises(UsageError, match="and no recipe of that name: there are char-lm"):
        hotloop.tune(what, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_from_a_notebook_the_output_is_printed_there_and_the_folder_stays(tmp_path, monkeypatch):
    """A notebook replaces sys.stdout and sys.stderr by objects without a descriptor."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("raise RuntimeError('no data here')")
    out, err = io.StringIO(), io.StringIO()
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with streams[0], streams[1], pytest.raises(DataError, match="nothing was measured of"):
        hotloop.tune("train.py", budget=5)
    assert "no data here" in err.getvalue()
    (folder,) = (tmp_path / ".hotloop").glob("tune-train-*")
    assert RunDir(folder).read()["status"] == "failed"
