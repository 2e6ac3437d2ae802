"""hotloop rules: what the doctor looks for in a script, and what it needs to see for that."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rich.console import Console

from hotloop import rules
from hotloop.cli.terminal.lines import plain_table
from hotloop.core.env import ENV
from hotloop.rules.base import Needs

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run"]

_NEEDS = {  # needs that only some runs meet
    Needs.GPU: "a CUDA GPU",
    Needs.READINGS: "nvidia-ml-py",
    Needs.PROFILE: "--profile",
    Needs.CEILINGS: "--ceilings",
    Needs.RANKS: "several processes",
    Needs.CONFIG: "a configuration file",
}


def run(args: Sequence[str]) -> int:
    """Run the verb."""
    argparse.ArgumentParser(prog="hotloop rules", description=__doc__).parse_args(args)
    table = plain_table("rule", "what it says", "needs")
    for rule in rules.ALL:
        needs = ", ".join(text for need, text in _NEEDS.items() if need in rule.needs)
        table.add_row(rule.label, rule.title, needs)
    console = Console(no_color=ENV.no_color, highlight=False)
    console.print(table)
    console.print(f"{len(rules.ALL)} rules; hotloop explain D13 shows a page")
    return 0
