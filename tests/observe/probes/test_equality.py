import numpy as np
import pytest
import torch

from hotloop.observe.probes.equality import copied, equal, marks

SAMPLES = [
    torch.tensor([1.0, float("nan")]),
    np.array([1, 2]),
    (torch.ones(2), 3, "text", None),
    {"a": [np.float32(1.5)], "b": b"x"},
    float("nan"),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_a_copy_is_equal_bit_for_bit(sample) -> None:
    assert equal(sample, copied(sample))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (torch.ones(2), torch.ones(3)),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.zeros(1), -torch.zeros(1)),
        (1, True),
        ((1, 2), [1, 2]),
        ({"a": 1}, {"b": 1}),
        (object(), object()),
    ],
)
def test_what_differs_in_a_bit_or_a_type_is_not_equal(a, b) -> None:
    assert not equal(a, b)


def test_a_copy_shares_no_memory() -> None:
    sample = {"x": torch.zeros(2), "y": np.zeros(2)}
    other = copied(sample)
    sample["x"] += 1
    sample["y"] += 1
    assert other["x"].sum() == 0
    assert other["y"].sum() == 0


def test_an_unknown_kind_is_not_copied() -> None:
    with pytest.raises(LookupError, match="object in a sample"):
        copied([object()])


class Data:
    def __init__(self) -> None:
        self.epoch, self.items, self.tensor, self.array = 0, [1, 2, 3], torch.ones(3), np.ones(3)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: setattr(data, "epoch", 1),
        lambda data: data.items.reverse(),
        lambda data: data.items.append(4),
        lambda data: data.tensor.add_(1),
        lambda data: data.array.__iadd__(1),
        lambda data: setattr(data, "more", 1),
    ],
)
def test_marks_show_a_change_in_place(change) -> None:
    data = Data()
    before = marks(data)
    assert marks(data) == before
    change(data)
    assert marks(data) != before
