import json

import pytest

from hotloop.cli.main import main


def but(settings: list[str], *changed: str) -> list[str]:
    keys = {text.partition("=")[0] for text in changed}
    return [s for s in settings if s.partition("=")[0] not in keys] + list(changed)


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ([], 2, "which ladder? There are: char-lm"),
        (["char-ml"], 2, "did you mean char-lm"),
        (["training.lr=1"], 2, "which ladder"),
        (["char-lm", "--require", "tokens_per_s>5"], 2, "expected NAME>=NUMBER"),
        (["char-lm", "--require", "gpu_utl>=0.5"], 2, "did you mean gpu_util"),
        (["char-lm", "--rungs", "engin"], 2, "did you mean engine"),
        (["char-lm", "--rounds", "0"], 2, "at least 1 round"),
        (["char-lm", "traning.lr=1"], 78, "did you mean training.learning_rate"),
        (["char-lm", "--plan", "nowhere.json"], 78, "nowhere.json"),
        (["char-lm", "data.path=nowhere.txt"], 65, "nowhere.txt"),
        (["compare", "a.json"], 2, "two results, got 1"),
        (["compare", "a.json", "b.json"], 65, "a.json"),
    ],
)
def test_errors_name_what_was_expected(argv, code, said, capsys):
    assert main(["bench", *argv]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_a_ladder_is_climbed_and_a_missed_target_is_exit_1(tiny, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = but(tiny, "model.dropout=0")
    argv = ["bench", "char-lm", *settings, "--rungs", "before", "--rounds", "1", "--no-epochs"]
    argv += ["--json", "a.json", "--html", "a.html", "--require", "it_per_s>=0.001 gpu_util>=0.6"]
    assert main(argv) == 1
    said = capsys.readouterr()
    assert "rung 1 of 1, plain loop: starting" in said.err
    assert "met it_per_s>=0.001 (plain loop)" in said.out
    assert "MISSED gpu_util>=0.6 (plain loop): gpu_util is unknown: this machine" in said.out
    written = json.loads((tmp_path / "a.json").read_text())
    assert [row["state"] for row in written["rows"]] == ["measured"]
    assert [each["met"] for each in written["targets"]] == [True, False]
    asked = ["--rounds", "1", "--rungs", "before"]
    assert written["command"] == ["hotloop", "bench", "char-lm", *settings, *asked]
    assert "plain loop" in (tmp_path / "a.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.json"]

    assert main(["bench", "compare", "a.json", "a.json"]) == 0
    assert "1.00x" in capsys.readouterr().out
    written["hardware"]["name"] = "another"
    (tmp_path / "b.json").write_text(json.dumps(written))
    assert main(["bench", "compare", "a.json", "b.json"]) == 78
    assert "hardware name" in capsys.readouterr().err
