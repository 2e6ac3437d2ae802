"""Prints the requested techniques of a script's run with their effects, and the next step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from hotloop.core.finding import SourceLocation
from hotloop.report import sentences
from hotloop.report.excerpt import visible, where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from hotloop.core.case.case import Case
    from hotloop.core.effect import Effect
    from hotloop.core.finding import Diagnosis

__all__ = ["show_effects", "show_next"]

_COLOUR = {"in effect": "bold green", "not needed here": "", "refused": "bold yellow"}


def show_effects(effects: Sequence[Effect], out: Console) -> None:
    """Print one line for each requested technique, and below it how its effect is known."""
    out.print(Text("\nhotloop: what was put in", style="bold"))
    widest = max((len(effect.technique) for effect in effects), default=0)
    for effect in effects:
        line = Text(f"{visible(effect.technique):<{widest}}  ")
        out.print(line.append(effect.word, _COLOUR[effect.word]))
        out.print(Padding(Text(visible(effect.how)), (0, 0, 0, 3)))


def show_next(case: Case, diagnosis: Diagnosis, out: Console, *, folder: Path | None) -> None:
    """Print the next bottleneck with its ceiling, and the command that shows all findings."""
    verdict = sentences.verdict(case, diagnosis)
    out.print(Text(f"\nnext: {verdict.said}"))
    if verdict.also is not None:
        out.print(Text(verdict.also))
    if folder is not None:
        location = where(SourceLocation(file=str(folder)), str(Path.cwd()))
        out.print(Text(f"all findings: hotloop doctor {location}"), soft_wrap=True)
