"""Windows that are sent ahead are the windows of the feed, whatever the loop asks for next."""

import numpy as np
import pytest
import torch

from hotloop.core.hardware import Hardware
from hotloop.data.sampling.context_windows import Windows
from hotloop.engine.loader_processes import WindowWorkers
from hotloop.engine.prefetch import Direct, Prefetch, source_of
from hotloop.session.accumulation_windows import AccumulationWindows, Position
from hotloop.session.session import Loading, Session


class Stream:
    """Records what is sent and what arrives."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def send(self, tensors):
        self.log.append("send")
        return [tensor.clone() for tensor in tensors], None

    def arrive(self, tensors, event):
        self.log.append("arrive")


def feed() -> AccumulationWindows:
    ids = np.arange(90, dtype=np.uint16)
    samples = Windows(ids, tokens_fingerprint="", context=8, seed=1, shuffle=True)
    return AccumulationWindows(samples=samples, batch_size=4, drop_last=False)


def values(window) -> list[list[int]]:
    return [batch.tensors["inputs"].tolist() for batch in window]


def test_the_next_window_is_sent_before_it_is_asked_for():
    one, stream, at = feed(), Stream(), Position()
    source = Prefetch(Direct(one), stream)
    for step in range(5):
        assert values(source.window(at, 4)) == values(one.window(at, 4))
        expected = ["arrive"] if step else ["send", "arrive"]
        assert stream.log == expected
        stream.log.clear()
        at = one.after(at)
        source.prepare(at, 4)
        assert stream.log.pop() == "send"


def test_a_window_that_is_not_the_one_sent_is_made_anew():
    one, stream = feed(), Stream()
    source = Prefetch(Direct(one), stream)
    source.prepare(Position(), 4)
    for at, micro in ((Position(), 2), (Position(epoch=1), 4), (Position(sample=4), 4)):
        assert values(source.window(at, micro)) == values(one.window(at, micro))


def session(**loading) -> Session:
    return Session(
        job=None,
        hardware=Hardware(device="cpu", name="cpu"),
        device=torch.device("cpu"),
        model=torch.nn.Linear(1, 1),
        micro_batch=4,
        accumulation=1,
        forward=lambda tensors: tensors,
        loading=Loading(**loading),
    )


def test_the_slots_choose_the_source():
    assert isinstance(source_of(feed(), session()), Direct)
    assert isinstance(source_of(feed(), session(workers=2)), WindowWorkers)


@pytest.mark.gpu
def test_on_a_gpu_windows_arrive_there():
    one = session(prefetch=True)
    one.device = torch.device("cuda")
    made, at = feed(), Position()
    source = source_of(made, one)
    for _ in range(6):
        window = source.window(at, 4)
        assert all(t.is_cuda for batch in window for t in batch.tensors.values())
        assert values(window) == values(made.window(at, 4))
        at = made.after(at)
        source.prepare(at, 4)
