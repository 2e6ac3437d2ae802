from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from torch import nn
from torch.backends import cudnn

from hotloop.techniques import cudnn_benchmark as technique


@dataclass
class Model:
    """What the technique needs of a session."""

    model: nn.Module
    undo: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(autouse=True)
def switch() -> Iterator[None]:
    assert not cudnn.benchmark
    yield
    cudnn.benchmark = False


def test_it_counts_convolutions_of_any_kind_and_undo_switches_it_off() -> None:
    session = Model(nn.Sequential(nn.Conv1d(2, 2, 1), nn.ReLU(), nn.ConvTranspose3d(2, 2, 1)))
    assert technique.apply(session) == 2  # type: ignore[arg-type]
    told = technique.read_back(session)  # type: ignore[arg-type]
    assert told == "cudnn.benchmark is on for 2 convolutions"
    session.undo["cudnn-benchmark"]()
    assert not cudnn.benchmark
    assert technique.read_back(session) is None  # type: ignore[arg-type]


def test_a_model_without_a_convolution_leaves_it_off() -> None:
    session = Model(nn.Linear(2, 2))
    assert technique.apply(session) == 0  # type: ignore[arg-type]
    assert not cudnn.benchmark
    assert "a transformer has none" in technique.TECHNIQUE.nothing


def test_what_the_caller_switched_on_stays_on() -> None:
    cudnn.benchmark = True
    session = Model(nn.Conv2d(2, 2, 1))
    assert technique.apply(session) == 0  # type: ignore[arg-type]
    assert session.undo == {}
