"""hotloop techniques: what there is, what it may do to the numbers, and what is usable here."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hotloop import techniques
from hotloop.core.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run"]


def run(args: Sequence[str]) -> int:
    """Run the verb."""
    argparse.ArgumentParser(prog="hotloop techniques", description=__doc__).parse_args(args)

    from hotloop.machine.detect import detect

    hardware = detect()
    print(f"on {hardware.name} ({hardware.device}):")
    for technique in techniques.ALL:
        why = technique.blocked(hardware, Plan(micro_batch=1).plus(technique.id))
        state = "usable" if why is None else f"not here: {why}"
        print(f"{technique.id:<24} {technique.numerics.name.lower():<9} {state}")
    print("hotloop explain ID shows a page")
    return 0
