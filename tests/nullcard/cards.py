"""The cards that the null card can stand for: what a program can ask of them, no speed."""

import json
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CARDS", "Card"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One card as CUDA describes it. Peaks are in `hotloop.core.gpu_specs`, not here."""

    name: str  # as the driver spells it
    capability: tuple[int, int]
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


def _read() -> dict[str, Card]:
    table = json.loads((Path(__file__).parent / "cards.json").read_text())
    cards = {}
    for key, own in table["cards"].items():
        shared = table["capabilities"][own["capability"]]
        major, minor = map(int, own["capability"].split("."))
        source = f"{own['source']}; {shared['source']}"
        cards[key] = Card(**{**shared, **own, "capability": (major, minor), "source": source})
    return cards


CARDS = _read()
