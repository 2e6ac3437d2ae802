import pytest

from hotloop.export.trackers.follow import TrackerUpload
from hotloop.export.trackers.tensorboard import open_sink

from .conftest import resumed, session, step, validation

pytest.importorskip("tensorboard", reason="pip install 'hotloop[tensorboard]' to try it for real")


def feed(folder):
    return TrackerUpload(folder, "tensorboard", open_sink, name="mine", project="hotloop")


def shown(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder.path / "tensorboard"), size_guidance={"scalars": 0})
    return read.Reload()


def fed(folder):
    one = feed(folder)
    one.catch_up()
    one.close()


def test_tensorboard_reads_what_was_sent(folder, add):
    add(session(), step(1, loss=4.0), step(2, loss=3.5), validation(2))
    fed(folder)
    add(step(3, loss=3.0))
    fed(folder)
    read = shown(folder)
    assert [(e.step, e.value) for e in read.Scalars("train/loss")] == [(1, 4.0), (2, 3.5), (3, 3.0)]
    assert [e.value for e in read.Scalars("valid/loss")] == [3.0]
    (text,) = read.Tensors("run/text_summary")
    assert b"| hardware.name | Test CPU |" in text.tensor_proto.string_val[0]


def test_tensorboard_drops_what_a_resume_made_void(folder, add):
    add(session(), step(1, loss=4.0), step(2, loss=9.0), step(3, loss=9.5))
    fed(folder)
    add(session(), resumed(1), step(2, loss=3.0))
    fed(folder)
    losses = [(e.step, e.value) for e in shown(folder).Scalars("train/loss")]
    assert losses == [(1, 4.0), (2, 3.0)]


def test_points_that_a_kill_left_unnoted_are_not_doubled(folder, add):
    add(session(), step(1, loss=4.0))
    fed(folder)
    before = folder.tracked("tensorboard").read_bytes()
    add(step(2, loss=3.0))
    fed(folder)
    folder.tracked("tensorboard").write_bytes(before)
    fed(folder)
    losses = [(e.step, e.value) for e in shown(folder).Scalars("train/loss")]
    assert losses == [(1, 4.0), (2, 3.0)]
