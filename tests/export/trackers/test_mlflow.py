import pytest

from hotloop.core.errors import DeviceError
from hotloop.export.trackers.follow import TrackerUpload
from hotloop.export.trackers.mlflow import open_sink

from .conftest import session, step

mlflow = pytest.importorskip("mlflow", reason="pip install 'hotloop[mlflow]' to try it for real")


def fed(folder):
    one = TrackerUpload(folder, "mlflow", open_sink, name="mine", project="tests")
    one.catch_up()
    one.close()


def test_mlflow_has_what_was_sent(folder, add, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    add(session(), step(1, loss=4.0))
    fed(folder)
    add(step(2, loss=3.0))
    fed(folder)
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("tests").experiment_id])
    history = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(metric.step, metric.value) for metric in history] == [(1, 4.0), (2, 3.0)]
    assert (run.info.run_name, run.info.status) == ("mine", "FINISHED")
    assert run.data.params["technique.sdpa.backend.auto."] == "in effect"


def test_a_store_that_refuses_is_named(folder, add, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "no-such-scheme://x")
    add(session(), step(1))
    with pytest.raises(DeviceError, match=r"MLflow refused: .*MLFLOW_TRACKING_URI"):
        fed(folder)
