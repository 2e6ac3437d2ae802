import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from tests.data.disks import built, environment, lines, repository

from hotloop.cli import data_find
from hotloop.cli.main import main


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """Caches and a project, the working directory, that names what is there and what is not."""
    own = environment(tmp_path / "home")
    repository(
        own.hub, "dataset", "org/name", {"train.jsonl": lines(12_345), "test.jsonl": lines(6)}
    )
    built(own.datasets, "org/built", "plain", {"train": 7})
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (project / "data" / "math.jsonl").write_bytes(lines(4))
    (project / "data" / "\x1b[31mred [bold].csv").write_text("x\n1\n")
    (project / "experts.yaml").write_text(
        "- {name: '[bold]math', data: data/math.jsonl}\n- {name: law, data: gone/law.jsonl}\n"
    )
    monkeypatch.chdir(project)
    return own


def shown(own, width, *args):
    out = Console(file=io.StringIO(), width=width, highlight=False)
    assert data_find.run([*args], console=out, environment=own) == 0
    return out.file.getvalue()


def test_all_is_in_the_table(disk):
    said = shown(disk, 200, "--root", "data")
    (hub,) = [line for line in said.splitlines() if line.startswith("org/name")]
    assert re.search(r"hub +jsonl +train 12,345 +\d+ KiB +\S+ s ago", hub)
    assert re.search(r"org/built \(plain\) +datasets-cache +arrow +train 7 ", said)
    assert re.search(r"data/math.jsonl .* experts.yaml:1 \[bold\]math", said)
    assert "4 data sets, " in said
    assert "missing: gone/law.jsonl, named by experts.yaml:2 law" in said
    assert "data/?[31mred [bold].csv" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("width", [1, 20, 40, 80, 119, 120, 200])
def test_every_width_can_be_read(disk, width):
    said = shown(disk, width, "--root", "data")
    assert all(len(line) <= width for line in said.splitlines())
    words = re.sub(r"\s+", "", said)
    assert "12,345" in words
    assert width >= 120 or "namedbyexperts.yaml:1[bold]math" in words
    assert "gone/law.jsonl" in words


def test_json_holds_everything_and_stdout_no_control_characters(disk, tmp_path, capsys):
    path = tmp_path / "found.json"
    assert data_find.run(["--root", "data", "--json", str(path)], environment=disk) == 0
    value = json.loads(path.read_text())
    assert value["schema"] == 1
    assert [one["id"] for one in value["data_sets"]][:2] == ["org/name", "org/built"]
    assert value["data_sets"][0]["splits"] == {"test": 6, "train": 12_345}
    assert value["missing"] == [
        {"what": "gone/law.jsonl", "file": "experts.yaml", "line": 2, "name": "law"}
    ]
    captured = capsys.readouterr()
    assert "\x1b" not in captured.out + captured.err
    assert captured.err == ""


def test_nothing_found_is_said_on_stderr(tmp_path, monkeypatch, capsys):
    own = environment(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert data_find.run([], environment=own) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "no data set was found; --root DIR looks into a folder\n"


def test_notes_go_to_stderr_and_many_are_counted(disk, capsys):
    project = Path()
    for n in range(15):
        (project / "data" / f"broken{n}.jsonl.gz").write_bytes(b"no gzip")
    assert data_find.run(["--root", "data"], environment=disk) == 0
    captured = capsys.readouterr()
    assert captured.err.count("cannot be read") == 10
    assert "note: 5 more, all in --json" in captured.err
    assert "note" not in captured.out


def test_a_root_that_is_not_there_is_a_usage_error(disk, capsys):
    assert main(["data", "find", "--root", "gone"]) == 2
    assert "gone is not there" in capsys.readouterr().err


def test_many_places_and_splits_are_counted(disk):
    project = Path()
    text = "".join(f"- {{name: e{n}, data: data/math.jsonl}}\n" for n in range(20))
    (project / "experts.yaml").write_text(text)
    said = shown(disk, 200)
    assert "e3" in said
    assert "e4" not in said
    assert "and 16 more" in said
