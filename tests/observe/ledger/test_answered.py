"""A value that Python reads for each call of a model may be answered by a game."""

from types import SimpleNamespace

import pytest
import torch
from tests.observe.ledger.recorded import recorded
from torch import nn

from hotloop.observe.ledger.answered import is_answered

CALLS = 6


def answered(losses, parameters) -> bool:
    recorder, _ = recorded(losses, list(parameters))
    found = is_answered([SimpleNamespace(recorder=recorder)])
    recorder.release()
    return found


@pytest.mark.parametrize(
    ("reads", "said"),
    [
        (lambda values: [value.argmax().item() for value in values], True),
        (lambda values: values[0].argmax().item(), False),
        (lambda values: None, False),
    ],
)
def test_only_a_value_for_each_call_counts(reads, said):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    def episode():
        values = [model(torch.randn(4)) for _ in range(CALLS)]
        reads(values)
        return [torch.stack(values).sum()]

    assert answered(episode, model.parameters()) is said


def test_nothing_is_answered_without_a_model():
    weight = nn.Parameter(torch.randn(3))
    assert not answered(lambda: [torch.randn(3).sum() + 0 * weight.detach().sum()][:0], [weight])
