import json
from importlib import import_module

import pytest
from tests.export.trackers.conftest import step

from hotloop.cli.track import TRACKERS, run
from hotloop.core.errors import UsageError
from hotloop.core.storage.rundir import RunDir


class Sink:
    """Remembers what it was given."""

    id, where = "a1", "http://tracker/a1"

    def __init__(self):
        self.opening, self.points, self.status = None, [], None

    def open(self, opening):
        self.opening = opening
        return self

    def write(self, points):
        self.points += points

    def close(self, status):
        self.status = status


@pytest.fixture
def sink():
    return Sink()


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "mine"
    path.mkdir()
    (path / "run.json").write_text(json.dumps({"schema": 1, "status": "complete"}))
    (path / "events-r0.jsonl").write_text(step(1) + "\n")
    return path


def test_it_sends_a_run_and_prints_where_it_is(folder, sink, capsys):
    assert run([str(folder), "--to", "wandb"], open_sink=sink.open) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("http://tracker/a1\n", "hotloop: 4 points were sent\n")
    assert (sink.opening.name, sink.opening.project) == ("mine", "hotloop")
    assert (len(sink.points), sink.status) == (4, "complete")
    assert run([str(folder), "--to", "wandb"], open_sink=sink.open) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "hotloop: nothing new to send\n")


def test_two_at_once_would_send_everything_twice(folder, sink):
    lock = RunDir(folder).tracking("mlflow")
    lock.acquire()
    with pytest.raises(UsageError, match="in use by process"):
        run([str(folder), "--to", "mlflow"], open_sink=sink.open)
    assert run([str(folder), "--to", "wandb"], open_sink=sink.open) == 0  # each has its own
    lock.release()


@pytest.mark.parametrize("name", ["../up", " ", "a/b", "-x"])
def test_a_name_that_leads_elsewhere_is_refused(folder, sink, name):
    with pytest.raises(UsageError, match="is no name"):
        run([str(folder), "--to", "mlflow", f"--project={name}"], open_sink=sink.open)


def test_a_folder_without_a_run_is_refused(tmp_path, sink):
    with pytest.raises(UsageError, match="no run folder"):
        run([str(tmp_path), "--to", "mlflow"], open_sink=sink.open)


@pytest.mark.parametrize("to", TRACKERS)
def test_each_tracker_has_its_module(to):
    assert callable(import_module(f"hotloop.export.trackers.{to}").open_sink)
