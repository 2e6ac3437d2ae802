"""What sampled rows say."""

import pytest
import torch

from hotloop.observe.probes import rows

DRAW = torch.Generator().manual_seed(0)


def hashes(batch):
    return rows.hashes({"x": batch}, ("x",))


def random_rows(count, width, low=1):
    return torch.randint(low, 1000, (count, width), generator=DRAW)


def test_rows_are_told_apart_by_their_hash():
    batch = random_rows(6, 12)
    first = hashes(batch)
    assert len(set(first)) == 6
    assert hashes(batch.clone()) == first
    batch[2, 11] += 1
    assert [a == b for a, b in zip(first, hashes(batch), strict=True)].count(False) == 1


def test_rows_are_equal_only_where_all_their_fields_are():
    questions = random_rows(6, 24)
    asked = {"picture": questions[:1].expand(6, 24), "question": questions, "label": torch.ones(6)}
    found = rows.hashes(asked, ("picture", "question", "label"))
    assert len(set(found)) == 6
    assert rows.inputs(found) == [found[0][0]] * 6
    assert len(set(rows.hashes(asked, ("picture", "label")))) == 1
    assert len(set(rows.hashes(asked, ("picture", "missing")))) == 1


UNKNOWN = torch.cat([torch.full((4, 1), 2), torch.full((4, 20), 1), torch.full((4, 1), 3)], 1)


@pytest.mark.parametrize(
    "batch",
    [
        torch.zeros(4, 20),
        torch.nn.functional.one_hot(torch.arange(4) % 2, 40),
        UNKNOWN,  # words that the vocabulary does not have
        random_rows(4, 12, low=998),  # 12 bits: of some thousand such rows many are equal
    ],
)
def test_rows_that_say_too_little_are_not_compared(batch):
    assert hashes(batch) == [None] * 4
    assert rows.duplicated({1: hashes(batch) * 3}) == 0
    assert rows.inputs(hashes(batch)) == []


@pytest.mark.parametrize("batch", [torch.zeros(4, 3, dtype=torch.long), torch.zeros(4)])
def test_short_rows_are_not_hashed(batch):
    assert hashes(batch) == []


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bfloat16,
        torch.float64,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.float8_e4m3fn,
        torch.uint16,
    ],
)
def test_rows_of_any_dtype_are_hashed(dtype):
    batch = (torch.rand(5, 3, 8, 8, generator=DRAW) > 0.5).to(dtype)
    assert len(set(hashes(batch))) == 5


@pytest.mark.parametrize("stride", [1, 2, 5])
def test_the_stride_of_shuffled_windows_is_found(stride):
    text = torch.randint(0, 60, (600,), generator=DRAW)
    length = (600 - 32) // stride
    starts = torch.randperm(length, generator=DRAW)[:64] * stride
    windows = torch.stack([text[at : at + 32] for at in starts.tolist()])
    assert rows.shift(list(windows.split(8)), length) == stride


def test_rows_of_their_own_have_no_stride():
    assert rows.shift([random_rows(32, 32)]) is None


def test_a_text_that_repeats_itself_has_no_stride():
    batch = random_rows(200, 32)
    for row, at in ((0, 9), (1, 11), (2, 14)):
        batch[row, at:] = batch[row + 100, : 32 - at]  # by chance
    assert rows.shift([batch], 1000) is None


def test_a_common_opening_is_no_overlap():
    batch = random_rows(32, 32)
    batch[:, :16] = torch.arange(16)
    batch[:, 10:26] = torch.arange(16)  # its first part is in the middle of every row
    assert rows.shift([batch]) is None


def test_came_again_puts_what_was_seen_in_proportion():
    epochs = {1: list(range(50)), 2: list(range(25, 75))}
    assert rows.came_again(epochs, {}, 100) == 1.0
    assert rows.came_again({1: list(range(50)), 2: list(range(100, 150))}, {}, 100) == 0.0
    assert rows.came_again({1: list(range(50))}, {}, 100) is None
    assert rows.came_again({1: [1], 2: [2]}, {}, 100) is None  # too few to tell
    assert rows.came_again({1: [1, 2], 2: [1, 2]}, {1: [1, 2], 2: [1, 2]}, None) == 1.0


def test_labels_are_counted_without_those_that_are_ignored():
    values, ignored = rows.label_values([torch.tensor([1, 1, -100, 2])])
    assert (values, ignored) == ({"1": 2, "2": 1}, 0.25)
    assert rows.label_values([torch.rand(100)]) == ({}, None)
    assert rows.label_values([torch.full((9,), 0.5)]) == ({"0.5": 9}, None)
