"""Prints what `hotloop rehearse` saw: answers, memory, the step, its lines, what is not shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from rich.text import Text

from hotloop.cli.terminal.lines import facts, plain_table
from hotloop.core.units import bytes_, many, moment
from hotloop.report.excerpt import visible, where
from hotloop.report.rehearsal import (
    QUESTIONS,
    batch_in_words,
    estimate_in_words,
    judged_in_words,
    plan_facts,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from hotloop.core.case.rehearsal import CardLine, Rehearsal, RehearsedRun, Verdict

__all__ = ["show"]

_LINES: Final = 8  # of the script
_PLACES: Final = 3  # lines of a finding
_SHORTEST: Final = 12  # columns in which a line of code still says something


def show(result: Rehearsal, out: Console) -> None:
    """Print the result."""
    capability = "{}.{}".format(*result.capability)
    out.print(
        Text(
            f"{visible(result.script)} on a simulated {result.card} "
            f"(capability {capability}, {bytes_(result.memory)}), torch {result.run.torch}"
        )
    )
    facts(out, "Kernels compute nothing here: no loss and no value means anything.")
    out.print()
    for verdict in result.verdicts:
        _verdict(verdict, out)
    _raised(result.run, out)
    _plan(result.run, out)
    _step(result.run, out)
    if result.estimate is not None:
        facts(out, *estimate_in_words(result.estimate))
    _lines(result.run.lines, out)
    if result.run.why_no_lines is not None:
        facts(out, f"lines: unknown, as {result.run.why_no_lines}")
    if result.largest is not None:
        out.print()
        facts(out, *batch_in_words(result.largest))
    _judged(result, out)
    out.print()
    out.print("not shown by a simulated card:")
    facts(out, *result.not_shown)


def _judged(result: Rehearsal, out: Console) -> None:
    out.print()
    if result.judged is None:
        out.print(
            f"the doctor's rules on the GPU and the host say nothing: {result.why_not_judged}"
        )
        return
    out.print(Text(judged_in_words(result.judged)))
    for finding in result.judged.findings:
        places = [where(place, os.getcwd()) for place in finding.places[:_PLACES]]
        at = f" ({', '.join(places)})" if places else ""
        facts(out, f"{finding.severity}, {finding.rule}: {visible(finding.claim)}{at}")
        for remedy in finding.remedies[:1]:
            facts(out, f"  {visible(remedy)}")


def _verdict(verdict: Verdict, out: Console) -> None:
    question = QUESTIONS.get(verdict.question, verdict.question)
    remedy = "" if verdict.remedy is None else f"; {verdict.remedy}"
    facts(out, f"{question}: {verdict.answer}: {visible(verdict.text)}{remedy}")


def _raised(run: RehearsedRun, out: Console) -> None:
    if run.raised is None:
        return
    out.print()
    out.print(Text(visible(run.raised.said)))
    if run.raised.place is not None:
        place = run.raised.place
        facts(out, f"{where(place, os.getcwd())}  {visible(run.raised_code)}")


def _plan(run: RehearsedRun, out: Console) -> None:
    if run.plan is None:
        return
    out.print()
    out.print("the recipe's plan on that card:")
    facts(out, *(f"{name}: {visible(text)}" for name, text in plan_facts(run.plan).items()))
    out.print()
    table = plain_table("technique", "", "how it was read back, or why not")
    for effect in run.plan.effects:
        table.add_row(effect.technique, effect.word, Text(visible(effect.how)))
    out.print(table)
    for note in run.notes:
        facts(out, f"warning: {visible(note)}")


def _step(run: RehearsedRun, out: Console) -> None:
    if not run.steps or run.host_seconds is None:
        return
    slowest, fastest = (f(step.seconds for step in run.steps) for f in (max, min))
    graphs = max(step.graphs for step in run.steps)
    out.print()
    out.print(f"a step (median of {len(run.steps)} after {run.warm}):")
    facts(
        out,
        f"{run.step_launches:,.0f} launches"
        + (f" and {graphs} CUDA graphs" if graphs else "")
        + f", {many(run.step_waits or 0, 'wait')} for the card",
        f"host: {moment(run.host_seconds)} on this machine "
        f"({moment(fastest)} to {moment(slowest)})",
    )


def _lines(lines: Sequence[CardLine], out: Console) -> None:
    if not lines:
        return
    out.print()
    places = [
        "no line of the script" if line.place is None else where(line.place, os.getcwd())
        for line in lines[:_LINES]
    ]
    room = out.width - max(map(len, places)) - len("waits  launches    ")
    table = plain_table("waits", "launches", "line", "code")
    for line, place in zip(lines, places, strict=False):
        code = Text(_cut(visible(line.code), room))
        table.add_row(str(line.waits), f"{line.launches:,}", Text(place), code)
    out.print(table)
    if len(lines) > _LINES:
        rest = lines[_LINES:]
        launches, waits = sum(x.launches for x in rest), sum(x.waits for x in rest)
        facts(out, f"{len(rest)} more lines: {launches:,} launches, {many(waits, 'wait')}")


def _cut(text: str, room: int) -> str:
    """Return a text, without its end if it is longer than `room` columns; "" for little room."""
    if len(text) <= room:
        return text
    return f"{text[: room - 3]}..." if room > _SHORTEST else ""
