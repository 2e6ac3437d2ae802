"""The cards' table agrees with the vendor's figures in hotloop, and with itself."""

import pytest
from tests.nullcard.cards import CARDS

from hotloop.core.gpu_specs import GPUS, find_gpu

MIB = 1 << 20


def test_the_cards_are_these():
    assert set(CARDS) == {
        *("t4", "rtx2080", "rtx3060", "rtx3090", "rtx4060", "rtx4080s", "rtx4090"),
        *("rtx5090", "a100", "h100", "h200"),
    }


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_what_both_tables_hold_agrees(card):
    gpu = find_gpu(card.name, card.memory_mib * MIB)
    if gpu is None:  # then hotloop must not know it by name either: it has no figures of this card
        words = frozenset(card.name.lower().split())
        near = [one for one in GPUS if one.words <= words <= one.words | one.optional]
        assert not near, f"{card.name} is known, but not with {card.memory_mib} MiB"
        return
    assert card.capability == gpu.capability
    assert card.memory_mib * MIB <= gpu.memory_bytes


def test_hotloop_has_no_figures_of_two_of_them():
    unknown = {key for key, card in CARDS.items() if find_gpu(card.name) is None}
    assert unknown == {"rtx2080", "rtx4060"}


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_a_card_is_consistent(card):
    assert card.shared_per_block_kib <= card.shared_per_sm_kib
    assert card.threads_per_sm % card.warp_size == 0
    assert card.source
