import pytest

from hotloop.export.trackers.follow import TrackerUpload
from hotloop.export.trackers.wandb import open_sink

from .conftest import session, step

pytest.importorskip("wandb", reason="pip install 'hotloop[wandb]' to try it for real")


def test_wandb_keeps_what_was_sent_beside_the_run(folder, add, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    add(session(), step(1, loss=4.0), step(2, loss=3.0))
    feed = TrackerUpload(folder, "wandb", open_sink, name="mine", project="tests")
    feed.catch_up()
    feed.close()
    (written,) = folder.path.glob("wandb/offline-run-*/*.wandb")
    assert b"train/loss" in written.read_bytes()
