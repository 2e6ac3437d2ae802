import json
import os
import signal
import threading
from pathlib import Path

import pytest
from benchmarks.diagnosed import RECORDED, recorded

import hotloop
from hotloop.cli.main import main
from hotloop.core.errors import UsageError
from hotloop.core.storage.rundir import RunDir
from hotloop.diagnosis.script import judge_again


def test_alone_it_says_what_the_machine_can_do(capsys, tmp_path):
    assert main(["doctor", "--json", str(tmp_path / "machine.json")]) == 0
    said = capsys.readouterr()
    for name in ("memory", "cores", "bf16", "tf32", "techniques", "disk, runs", "versions"):
        assert f"\n{name} " in said.out
    assert said.err == ""
    assert json.loads((tmp_path / "machine.json").read_text())["schema"] == 1


def test_a_recipe_is_checked_and_timed_and_nothing_is_left(capsys, tmp_path, tiny, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = ["doctor", "-q", "--steps", "3", "char-lm", *tiny, "--json", "found.json"]
    assert main(argv) == 0
    said = capsys.readouterr()
    assert said.out.startswith("char-lm: about ")
    assert "n=" in said.out
    assert "measured on this machine" in said.out
    assert "R2 small_validation" in said.out
    assert "\x1b" not in said.out + said.err
    assert said.err == ""
    written = json.loads(Path("found.json").read_text())
    assert [f["rule"] in said.out for f in written["findings"]].count(False) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"]


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["char-ml"], 2, "did you mean char-lm"),
        (["train.py"], 2, "there is no script 'train.py'"),
        (["train.py", "--steps", "5"], 2, "there is no script 'train.py'"),
        (["."], 2, "no recipe is called"),
        (["--steps", "5"], 2, "for a recipe"),
        (["char-lm", "--steps", "0"], 2, "at least 1 step"),
        (["training.lr=1"], 2, "which recipe"),
        (["char-lm", "traning.lr=1"], 78, "did you mean training.learning_rate"),
        (["char-lm", "training.batch_size=0"], 78, "training.batch_size"),
        (["char-lm", "--with", "fused-adam"], 78, "did you mean fused-adamw"),
        (["char-lm", "--plan", "nowhere.json"], 78, "nowhere.json"),
        (["char-lm", "data.path=nowhere.txt"], 65, "nowhere.txt"),
        (["char-lm", "--bogus"], 2, "unrecognized arguments: --bogus"),
        (["--html", "page.html"], 2, "--html is for a script or the run folder of one"),
    ],
)
def test_errors_are_those_of_train(argv, code, said, capsys):
    assert main(["doctor", *argv]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_text_shorter_than_the_context_is_bad_data(capsys, tiny):
    assert main(["doctor", "char-lm", tiny[0], "model.context=4000", "model.layers=1"]) == 65
    assert "one window of context 4000 needs 4001" in capsys.readouterr().err


def test_a_signal_ends_it_with_its_own_status(capsys, tmp_path, tiny, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["doctor", "-q", "char-lm", *tiny, "--steps", "1"])  # all is imported from here on
    capsys.readouterr()
    timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    try:
        assert main(["doctor", "char-lm", *tiny, "--steps", "100000000"]) == 143
    finally:
        timer.cancel()
    said = capsys.readouterr()
    assert "stopped by a signal; nothing is left behind" in said.err
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_what_was_observed_is_judged_again_and_drawn(capsys, tmp_path):
    case = recorded(RECORDED / "slow-pad_to_max.json")
    folder, drawn = tmp_path / "seen", tmp_path / "page.html"
    folder.mkdir()
    (folder / "case.json").write_text(json.dumps(case.to_json()))
    (folder / "run.json").write_text("{}")
    assert main(["doctor", str(folder), "--html", str(drawn)]) == 0
    assert "every row is padded" in capsys.readouterr().out
    assert "every row is padded" in drawn.read_text()


def test_from_the_library_the_folder_stays_and_the_diagnosis_is_returned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(
        "import torch\n"
        "net = torch.nn.Linear(4, 1)\n"
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for step in range(20):\n"
        "    optimizer.zero_grad()\n"
        "    net(torch.ones(8, 4)).mean().backward()\n"
        "    optimizer.step()\n"
    )
    found = hotloop.doctor("train.py", options=("--experiments", "0"))
    (folder,) = (tmp_path / ".hotloop").glob("train-*")
    assert RunDir(folder).report.exists()
    assert found == judge_again(folder)[1]
    with pytest.raises(UsageError, match="already holds a run"):
        hotloop.doctor("train.py", out=folder)
    with pytest.raises(UsageError, match=r"there is no script 'nowhere\.py'"):
        hotloop.doctor("nowhere.py")
