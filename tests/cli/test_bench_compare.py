import json
from pathlib import Path

import pytest
from tests.paths import ROOT

from hotloop.cli.main import main

RECORDED = ROOT / "benchmarks" / "results" / "bench-char-lm-cpu.json"


@pytest.fixture
def results(tmp_path: Path, monkeypatch) -> None:
    """Write a.json, and b.json with the last rung at half the speed; nothing else was busy."""
    monkeypatch.chdir(tmp_path)
    raw = json.loads(RECORDED.read_text()) | {"busy_cores": 0.0}
    Path("a.json").write_text(json.dumps(raw))
    (row,) = (row for row in raw["rows"] if row["id"] == raw["judged"])
    row["step"]["readings"] = [2 * seconds for seconds in row["step"]["readings"]]
    row["figures"]["tokens_per_s"] /= 2
    Path("b.json").write_text(json.dumps(raw))


def test_half_the_speed_is_exit_1_and_written(results, capsys):
    words = ["a.json", "b.json", "--fail-on", "tokens_per_s<-10% ram>+50%", "--json", "found.json"]
    assert main(["bench", "compare", *words]) == 1
    said = capsys.readouterr().out
    assert "SLOWER" in said
    assert "REGRESSED tokens_per_s<-10%: 6.03k in B, 12.1k in A: -50% (" in said
    assert "held ram>+50%" in said
    written = json.loads(Path("found.json").read_text())
    assert [one["outcome"] for one in written["conditions"]] == ["REGRESSED", "held"]


def test_without_a_condition_and_for_what_is_held_it_is_exit_0(results, capsys):
    assert main(["bench", "compare", "a.json", "b.json"]) == 0
    assert main(["bench", "compare", "b.json", "a.json", "--fail-on", "tokens_per_s<-10%"]) == 0
    assert "held tokens_per_s<-10%" in capsys.readouterr().out


def test_what_is_unknown_fails_only_if_asked(results):
    words = ["bench", "compare", "a.json", "b.json", "--fail-on", "vram>+10%"]
    assert main(words) == 0
    assert main([*words, "--fail-on-unknown"]) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a.json"], "expected two results, got 1"),
        (["a.json", "b.json", "--fail-on", "tokens<-10%"], "did you mean tokens_per_s?"),
        (["a.json", "b.json", "--fail-on-unknown"], "--fail-on-unknown needs conditions"),
        (["a.json", "b.json", "--require", "it_per_s>=1"], "unrecognized arguments: --require"),
    ],
)
def test_what_it_cannot_use_is_refused(results, words, said, capsys):
    assert main(["bench", "compare", *words]) == 2
    assert said in capsys.readouterr().err
