"""The cards' table agrees with the vendor's figures in hotloop, and with itself."""

import pytest

from hotloop.core.errors import UsageError
from hotloop.nullcard.cards import CARDS, card_named


def test_the_cards_are_these():
    assert set(CARDS) == {
        *("t4", "rtx2080", "rtx3060", "rtx3090", "rtx4060", "rtx4080s", "rtx4090"),
        *("rtx5090", "a100", "h100", "h200"),
    }


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_each_card_has_the_vendors_figures(card):
    assert card.memory_bytes <= card.spec.memory_bytes
    assert card.spec.flops["fp16"]
    assert card.spec.flops["fp32"]


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("rtx3090", "rtx3090"),
        ("RTX 4080 Super", "rtx4080s"),
        ("rtx 3090", "rtx3090"),
        ("4090", None),
    ],
)
def test_a_card_is_found_as_people_write_it(typed, key):
    if key is not None:
        assert card_named(typed) is CARDS[key]
        return
    with pytest.raises(UsageError, match="there is no card '4090'; there are: t4, rtx2080"):
        card_named(typed)


def test_a_known_gpu_that_cannot_be_simulated():
    with pytest.raises(UsageError, match="the rtx 3070 cannot be simulated yet; there are: t4"):
        card_named("rtx3070")


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_a_card_is_consistent(card):
    assert card.shared_per_block_kib <= card.shared_per_sm_kib
    assert card.threads_per_sm % card.warp_size == 0
    assert card.source
