import io
import json

import pytest
from rich.console import Console
from tests.manyranks import made as of_ranks
from tests.monitor.conftest import made, session, steps  # noqa: F401 - a fixture

from hotloop.cli.main import main
from hotloop.cli.status import run


def shown(folder, width):
    out = Console(file=io.StringIO(), width=width, highlight=False)
    assert run([str(folder)], console=out) == 0
    return out.file.getvalue()


@pytest.fixture
def folder(made, tmp_path):  # noqa: F811
    made("runs/one", [session(), *steps(1, 20)])
    made("runs/two [bold]", [session(), *steps(1, 100)], alive=False, status="complete")
    (made("runs/bad") / "run.json").write_text("{")
    return tmp_path / "runs"


def test_runs_are_a_table_with_state_step_and_time_left(folder):
    said = shown(folder, 200)
    assert "running: training" in said
    assert "20 of 100" in said
    assert "two [bold]" in said
    assert "damaged" in said


def test_a_run_of_several_ranks_is_one_run(tmp_path):
    of_ranks(tmp_path / "runs" / "four", world=4, steps=12)
    said = shown(tmp_path / "runs", 200)
    assert len(said.splitlines()) == 2
    assert "12 of 12" in said
    assert "complete" in said


@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_width_can_be_read(folder, width):
    lines = shown(folder, width).splitlines()
    assert all(len(line) <= width for line in lines)
    assert any("20 of 100" in line for line in lines)


def test_json_holds_the_rows(folder, tmp_path, capsys):
    assert main(["status", str(folder), "--json", str(tmp_path / "s.json")]) == 0
    value = json.loads((tmp_path / "s.json").read_text())
    assert value["schema"] == 1
    assert [row["path"] for row in value["runs"]] == ["bad", "one", "two [bold]"]
    assert "\x1b" not in capsys.readouterr().out


def test_no_run_is_said_on_stderr(tmp_path, capsys):
    assert main(["status", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "there is no run" in captured.err


def test_a_folder_that_is_not_there_is_refused(tmp_path, capsys):
    assert main(["status", str(tmp_path / "gone")]) == 2
    assert "is no folder" in capsys.readouterr().err
