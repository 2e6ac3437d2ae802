"""The cards that the null card can stand for: what a program can ask of them.

What the vendor publishes of a card, its compute capability and peaks, is in core/gpu_specs.py
alone; cards.json has what a driver answers besides.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hotloop.core.errors import UsageError
from hotloop.core.gpu_specs import GpuSpec, find_gpu, gpu_named

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CARDS", "Card", "card_named"]

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One card as CUDA describes it."""

    key: str  # its short name
    name: str  # as the driver spells it
    spec: GpuSpec  # capability, peaks, bandwidth
    memory_mib: int  # as the driver reports it to a program: below the nominal figure
    sm_count: int
    warp_size: int  # threads
    threads_per_sm: int
    blocks_per_sm: int
    shared_per_sm_kib: int
    shared_per_block_kib: int  # with opt-in
    l2_kib: int
    clock_mhz: int  # the highest
    source: str

    @property
    def short_name(self) -> str:
        """Return its name without the vendor's: "RTX 3090"."""
        return self.name.removeprefix("NVIDIA ").removeprefix("GeForce ")

    @property
    def capability(self) -> tuple[int, int]:
        """Return its compute capability: (8, 9)."""
        return self.spec.capability

    @property
    def memory_bytes(self) -> int:
        """Return the bytes that a driver reports to a program."""
        return self.memory_mib * _MIB


def _read() -> dict[str, Card]:
    table = json.loads((Path(__file__).parent / "cards.json").read_text(encoding="utf-8"))
    cards = {}
    for key, own in table["cards"].items():
        spec = find_gpu(own["name"], own["memory_mib"] * _MIB)
        assert spec is not None, f"core/gpu_specs.py has no {own['name']}"
        shared = table["capabilities"]["{}.{}".format(*spec.capability)]
        source = f"{own['source']}; {shared['source']}"
        cards[key] = Card(**{**shared, **own, "key": key, "spec": spec, "source": source})
    return cards


CARDS: Final[Mapping[str, Card]] = _read()


def card_named(text: str) -> Card:
    """Return the card with a short name: rtx3090, "RTX 4080 Super", t4. UsageError lists all."""
    if (card := CARDS.get(text)) is not None:
        return card
    known = ", ".join(CARDS)
    try:
        spec = gpu_named(text)
    except UsageError:
        raise UsageError(f"there is no card {text!r}; there are: {known}") from None
    for card in CARDS.values():
        if card.spec.words == spec.words:
            return card
    raise UsageError(f"the {spec.name} cannot be simulated yet; there are: {known}")
