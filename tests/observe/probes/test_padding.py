"""What of a batch is padding."""

import pytest
import torch

from hotloop.observe.probes import padding

DRAW = torch.Generator().manual_seed(0)


def random_rows(count, width):
    return torch.randint(1, 1000, (count, width), generator=DRAW)


def test_text_without_padding_has_none():
    widths, real, pad, share = padding.lengths([random_rows(8, 16), random_rows(8, 16)], [])
    assert (widths, pad, share) == ([16, 16], None, 0.0)
    assert set(real) == {16}


def test_zeros_that_are_everywhere_are_no_padding():
    picture = (random_rows(16, 40) % 5 == 0).long() * 7
    picture[:, 30:] = 0
    picture[3, 30] = picture[5, 33] = picture[6, 36] = 7
    assert padding.lengths([picture, picture], [])[2] is None


def test_masks_count_before_trailing_values():
    mask = (torch.arange(16) < torch.arange(1, 9)[:, None]).long()
    assert padding.lengths([random_rows(8, 16)], [mask.sum(1)])[1] == list(range(1, 9))


def test_batches_of_any_number_of_rows_count_by_their_positions():
    some, few = random_rows(8, 16), random_rows(2, 40)
    widths, real, _, share = padding.lengths(
        [some, few], [torch.full((8,), 4), torch.full((2,), 40)]
    )
    assert (widths, real) == ([16, 40], [4] * 8 + [40] * 2)
    assert share == 1 - (8 * 4 + 2 * 40) / (8 * 16 + 2 * 40)


LENGTHS = torch.tensor([3, 12, 7, 5])
REAL = torch.arange(12) < LENGTHS[:, None]
TOKENS = random_rows(4, 12).masked_fill(~REAL, 0)
ANSWERS = REAL & (torch.arange(12) >= 2)


@pytest.mark.parametrize(
    "fields",
    [
        {"attention_mask": REAL.long()},
        {"completion_mask": ANSWERS.long(), "attention_mask": REAL},
        {"key_padding_mask": ~REAL},
        {"padding_mask": REAL.float()},
        {"loss_mask": ANSWERS, "padding_mask": ~REAL},
    ],
    ids=" ".join,
)
def test_a_mask_says_what_is_padding_whichever_way_round_it_is(fields):
    assert padding.unpadded(fields, TOKENS).tolist() == LENGTHS.tolist()


@pytest.mark.parametrize(
    "fields",
    [
        {"loss_mask": ANSWERS},
        {"special_tokens_mask": ~REAL | (torch.arange(12) == 0)},
        {"attention_mask": torch.rand(4, 12, generator=DRAW) * 3},
        {"attention_mask": torch.ones(4, 13)},
        {"attention_mask": torch.ones(4, 1, 12, 12)},
        {"attention": REAL},
    ],
    ids=" ".join,
)
def test_what_says_something_else_is_no_mask_of_padding(fields):
    assert padding.unpadded(fields, TOKENS) is None


def test_an_attention_mask_is_taken_at_its_word():
    hidden = random_rows(4, 12)
    assert padding.unpadded({"attention_mask": REAL}, hidden).tolist() == LENGTHS.tolist()


def test_of_a_batch_of_many_numbers_only_the_rows_that_are_kept_count():
    assert padding.unpadded({"attention_mask": REAL}, TOKENS[:2]).tolist() == [3, 12]


@pytest.mark.parametrize(
    ("widths", "real", "share"),
    [([8, 8], [8, 3, 8, 2], 0.5), ([8, 7], [8, 3, 7, 2], None), ([8], [8, 3], None)],
)
def test_truncated_rows_fill_a_width_that_all_batches_have(widths, real, share):
    assert padding.truncated(widths, real) == share
