"""Prints how a run compares with its baselines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape

from hotloop.cli.terminal.bench_table import show_conditions
from hotloop.cli.terminal.lines import facts, plain_table

if TYPE_CHECKING:
    from rich.console import Console

    from hotloop.diagnosis.regressions import BaselineComparison

__all__ = ["show_comparison"]


def show_comparison(result: BaselineComparison | None, out: Console) -> None:
    """Print figures, new findings and conditions; of a run that failed, that there are none."""
    if result is None:
        out.print("\nnot compared with the baseline: the run did not come to a good end")
        return
    several = len(result.baselines)
    name = result.baselines[0] if several == 1 else f"{several} runs"
    out.print(f"\n[bold]compared with {escape(name)}[/bold]")
    facts(out, *(f"- {one.said}" for one in result.differences))
    table = plain_table("figure", "baseline", "now", "change (95 % interval)", "verdict")
    known = [one for one in result.figures if one.before or one.now]
    for figure in known:
        values = (figure.shown(figure.before), figure.shown(figure.now), figure.changed)
        table.add_row(figure.name, *values, figure.verdict)
    if known:
        out.print(table)
    facts(out, *(f"new {one.severity}: {one.rule}: {one.claim}" for one in result.new))
    show_conditions(result.conditions, out)
