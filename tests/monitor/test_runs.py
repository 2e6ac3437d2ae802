import time

import pytest
from tests.monitor.conftest import dead, session, steps

from hotloop.core.errors import UsageError
from hotloop.core.storage.rundir import RunDir
from hotloop.monitor.runs import folders, row, rows


def test_every_run_below_a_folder_has_a_row(made, tmp_path):
    made("a/one", [session(), *steps(1, 20)])
    made("b", [session(), *steps(1, 100)], alive=False, status="complete")
    (tmp_path / "empty").mkdir()
    found = rows(tmp_path)
    assert [(row.path, row.state, row.step, row.steps) for row in found] == [
        ("a/one", "running", 20, 100),
        ("b", "complete", 100, 100),
    ]
    assert found[0].phase == "training"
    assert found[0].left_s == pytest.approx(8, abs=0.5)
    assert found[1].left_s is None


def test_folders_of_runs_come_by_path_and_each_has_its_row(made, tmp_path):
    made("b", [session(), *steps(1, 20)])
    made("a/one", [session(), *steps(1, 20)])
    assert folders(tmp_path) == [tmp_path / "a/one", tmp_path / "b"]
    assert [row(path, tmp_path).path for path in folders(tmp_path)] == ["a/one", "b"]


def test_a_run_named_itself_is_its_row(made):
    path = made("one", [session(), *steps(1, 20)])
    [row] = rows(path)
    assert (row.path, row.step) == (str(path), 20)


def test_a_dead_process_is_a_crash(made, tmp_path):
    dead(made("one", [session(), *steps(1, 20)], alive=False))
    [row] = rows(tmp_path)
    assert (row.state, row.why) == ("crashed", "process 1073741824 is gone")


def test_damage_is_a_row_with_its_reason(made, tmp_path):
    (made("a") / "run.json").write_text('{"schema"')
    made("b", ["nonsense"])
    made("c", [session(), *steps(1, 5)])
    (made("d") / "run.json").write_text('{"schema": 99}')
    made("e", hardware="gone", config=3, steps="many", choices=None)
    found = {row.path: row for row in rows(tmp_path)}
    assert [row.state for row in found.values()] == [
        "damaged", "damaged", "running", "damaged", "running"
    ]  # fmt: skip
    assert "run.json" in found["a"].why
    assert "events-r0.jsonl" in found["b"].why
    assert "schema 99" in found["d"].why


def test_observed_scripts_count_and_other_hidden_folders_do_not(tmp_path):
    home = RunDir(tmp_path / ".hotloop" / "train-1")
    record = {"kind": "script", "status": "stopped", "script": "/a/train.py"}
    home.save_observed(record, {}, {"steps": 42})
    RunDir(tmp_path / ".cache" / "x").save_observed(record, {}, {})
    [row] = rows(tmp_path)
    assert (row.path, row.state, row.what, row.step) == (
        ".hotloop/train-1", "stopped", "train.py", 42
    )  # fmt: skip
    home.findings.write_text("{")
    assert rows(tmp_path)[0].step is None


def test_a_search_is_running_while_its_process_is_at_it(tmp_path):
    with RunDir(tmp_path / "search").tuning({"kind": "tune", "status": "running"}):
        [row] = rows(tmp_path)
    assert (row.what, row.state, row.phase) == ("tune", "running", "trying plans")


def test_a_search_that_was_killed_has_crashed(tmp_path):
    with RunDir(tmp_path / "search").tuning({"kind": "tune", "status": "running"}):
        pass
    [row] = rows(tmp_path)
    assert (row.what, row.state) == ("tune", "crashed")


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is no folder"):
        rows(tmp_path / "gone")


def test_a_hundred_long_runs_are_read_from_their_ends(made, tmp_path):
    path = made("run-000", [session(), *steps(1, 5000)], alive=False, status="complete")
    record, events = (path / "run.json").read_text(), RunDir(path).events_file()
    for n in range(1, 100):
        folder = tmp_path / f"run-{n:03}"
        folder.mkdir()
        (folder / "run.json").write_text(record)
        RunDir(folder).events_file().hardlink_to(events)
    began = time.process_time()
    assert len(RunDir(path).events()) == 5001
    whole = time.process_time() - began
    found = rows(tmp_path)
    assert time.process_time() - began - whole < 100 * whole / 2
    assert [row.step for row in found] == [5000] * 100
