"""The copy and the thread: what is written is the state of the snapshot, one write at a time."""

import threading

import pytest
import torch

from hotloop.engine.checkpoint.background_writer import Background
from hotloop.engine.checkpoint.state import Snapshot


def snapshot(step: int, tensor: torch.Tensor) -> Snapshot:
    return Snapshot(step=step, files={"model": {"w": tensor}}, state={})


@pytest.fixture
def background():
    one = Background()
    yield one
    one.close()


def test_the_thread_sees_the_state_of_the_snapshot_while_the_training_goes_on(background):
    weight, go = torch.zeros(1000), threading.Event()

    def write(copied: Snapshot) -> float:
        assert go.wait(10)
        return copied.files["model"]["w"].sum().item()

    background.start(snapshot(1, weight), write)
    weight += 1
    assert background.take(wait=False) is None
    go.set()
    assert background.take(wait=True) == 0
    assert background.take(wait=True) is None, "a result is taken once"


def test_the_memory_of_the_copies_is_taken_once(background):
    weight, places = torch.zeros(1000), []
    for step in range(3):
        weight += 1
        background.start(snapshot(step, weight), lambda copied: copied.files["model"]["w"].clone())
        assert background.take(wait=True).tolist() == weight.tolist()
        places.append(background._copies["model", "w"].data_ptr())
    assert len(set(places)) == 1


def test_what_the_write_raises_is_raised_where_it_is_taken(background):
    def broken(copied: Snapshot) -> None:
        raise OSError("gone")

    background.start(snapshot(1, torch.zeros(3)), broken)
    with pytest.raises(OSError, match="gone"):
        background.take(wait=True)


def test_a_layout_is_kept(background):
    weight = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    background.start(snapshot(1, weight), lambda copied: copied.files["model"]["w"])
    copied = background.take(wait=True)
    assert torch.equal(copied, weight)
    assert copied.stride() == weight.stride()
