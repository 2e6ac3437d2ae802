"""hotloop explain: the page of a technique."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hotloop import techniques

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run"]


def run(args: Sequence[str]) -> int:
    """Run the verb."""
    parser = argparse.ArgumentParser(prog="hotloop explain", description=__doc__)
    parser.add_argument("id", metavar="ID")
    technique = techniques.get(parser.parse_args(args).id)
    print(f"{technique.id}: {technique.page}", end="")
    for name, values in technique.choices.items():
        print(f"Choice {name}: {', '.join(map(str, values))} (the first is the default)")
    return 0
