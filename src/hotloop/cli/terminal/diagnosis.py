"""Prints the diagnosis of a script: verdict, wall time, findings, unchecked subjects, effects.

It prints to the given console, usually stderr, as stdout belongs to the script. A `Sheet` also
prints the findings of other targets of the doctor. No meaning rests on colour alone, text of the
script is never parsed as markup, and lines wrap at any width from 40 columns on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from hotloop.cli.terminal.share_bar import bar, segments
from hotloop.core.case.case import IN_STEP
from hotloop.core.finding import SourceLocation
from hotloop.core.units import duration, moment
from hotloop.report import ledger, sentences
from hotloop.report.excerpt import quoted, visible, where
from hotloop.report.profile import TAKEN_AWAY, ceiling_in_words, operators_by_time
from hotloop.report.verdict import verdict_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from hotloop.cli.terminal.share_bar import Segment
    from hotloop.core.case.case import Case
    from hotloop.core.effect import Effect
    from hotloop.core.finding import Diagnosis, Finding

__all__ = ["Sheet", "show", "show_effects", "show_next"]

ROOMY = 60  # columns from which a row of the legend also has its time per step
SMALL = 0.005  # share below which rows of the wall time share one line of the legend
LARGEST = 10  # rows of the ledger
_EVERYWHERE = (
    "useful",
    "inefficient",
    "host",
    "moved",
    "import",
    "unaccounted",
)  # no line is to blame
INDENT = 3  # columns before the details of a finding
LEAST = 10  # columns for a text, however far it is indented
MOST_PLACES = 4  # shown of one finding; the rest is counted
_EFFECT_COLOUR = {"in effect": "bold green", "not needed here": "", "refused": "bold yellow"}
_COLOUR = {"critical": "bold red", "warn": "bold yellow", "note": "bold", None: "bold green"}


def show(
    case: Case,
    diagnosis: Diagnosis,
    console: Console,
    *,
    folder: Path | None,
    page: Path | None,
    here: Path | None = None,
    every: bool = False,
) -> None:
    """Print the result. `folder` is the run's, `page` its HTML; paths are relative to `here`.

    Of the findings it prints the first three above a note, or `every` one.
    """
    out = _ScriptSheet(case, console, str(here or Path.cwd()))
    out.verdict(diagnosis)
    out.wall()
    out.findings(diagnosis.findings if every else sentences.leading(diagnosis.findings))
    if not every:
        out.left_out(diagnosis, folder)
    out.machine(diagnosis)
    out.lines("experiments", sentences.experiments(case))
    if every:
        out.lines("refuted by an experiment", sentences.refuted(diagnosis))
    out.not_worth_it(diagnosis)
    out.operators()
    out.ceilings()
    out.lines("techniques in effect", [f"{id}: {how}" for id, how in case.techniques.items()])
    out.lines("not checked", diagnosis.not_checked)
    out.end(folder, page)


def _claim_with_share(finding: Finding) -> str:
    share = "" if finding.share is None else f"{finding.share:.1%}"
    claim = finding.claim.rstrip(". ")
    return f"{claim} ({share} of the wall time)" if share not in claim else claim


class Sheet:
    """Prints findings, and lines under titles, to one console."""

    def __init__(self, console: Console) -> None:
        self._out = console

    def findings(self, findings: Sequence[Finding]) -> None:
        """Print findings with their cost, places, evidence and remedies."""
        for number, finding in enumerate(findings, 1):
            word = Text(sentences.WORDS[finding.severity], _COLOUR[finding.severity])
            known = f", {finding.known}" if finding.known else ""
            self.say()
            self._print_wrapped(
                Text(f"{number}. "), word.append(f"  {visible(finding.rule)}{known}", "none")
            )
            self._finding(finding)

    def machine(self, diagnosis: Diagnosis) -> None:
        """Print what surrounds the run, each with its remedies."""
        if diagnosis.machine:
            self.title("this machine")
        for finding in diagnosis.machine:
            self._hang("-", f"{finding.rule}: {finding.claim}", indent=0)
            for text, command in self._remedies(finding):
                self._hang("->", text, indent=2)
                if command is not None:
                    self._to_copy("     $ ", command)

    def _finding(self, finding: Finding) -> None:
        self._say_indented(finding.claim)
        if costs := sentences.cost(finding):
            self._say_indented("; ".join(costs), style="bold")
        for place in finding.places[:MOST_PLACES]:
            self._place(place)
        if (more := len(finding.places) - MOST_PLACES) > 0:
            self._say_indented(f"and {more:,} more place{'s' * (more > 1)}")
        for name, reading in finding.evidence.items():
            self._hang("-", f"{visible(name)}: {sentences.reading(reading)}")
        for cause in finding.because:
            self._hang("-", f"because of {cause}")
        for text, command in self._remedies(finding):
            self._hang("->", text)
            if command is not None:
                self._to_copy("      $ ", command)

    def not_worth_it(self, diagnosis: Diagnosis) -> None:
        """Print the findings whose remedy would not pay."""
        lines = [
            f"{finding.rule}: {_claim_with_share(finding)}" for finding in diagnosis.not_worth_it
        ]
        self.lines("not worth it", lines)

    def lines(self, title: str, lines: Sequence[str]) -> None:
        """Print sentences under a title; print nothing if there are none."""
        if lines:
            self.title(title)
        for line in lines:
            self._hang("-", line, indent=0)

    def title(self, text: str) -> None:
        """Print a title."""
        self.say(f"\n{text}", style="bold")

    def say(self, text: str = "", *, style: str = "") -> None:
        """Print text, wrapped."""
        self._print_wrapped(Text(), Text(visible(text), style=style))

    def _place(self, place: SourceLocation) -> None:
        self._say_indented(where(place, str(Path.cwd())), style="cyan")

    def _remedies(self, finding: Finding) -> Iterable[tuple[str, str | None]]:
        """Return each remedy with the command for it, or None if unknown."""
        return [(f"{remedy.text} ({remedy.effort})", None) for remedy in finding.remedies]

    def _say_indented(self, text: str, *, style: str = "", indent: int = INDENT) -> None:
        self._print_wrapped(Text(" " * indent), Text(visible(text), style=style))

    def _hang(self, mark: str, text: str, *, indent: int = INDENT) -> None:
        """Print text after a mark; further lines are aligned with the first."""
        self._print_wrapped(Text(f"{' ' * indent}{mark} "), Text(visible(text)))

    def _print_wrapped(self, start: Text, body: Text) -> None:
        """Print text after its start; further lines are aligned with the first."""
        room = max(LEAST, self._out.width - len(start))
        for n, line in enumerate(body.wrap(self._out, room, overflow="fold")):
            line.rstrip()
            before = start if n == 0 else Text(" " * len(start))
            self._out.print(Text().append(before).append(line), soft_wrap=True)

    def _to_copy(self, start: str, text: str) -> None:
        """Print a text for copying without line breaks; the terminal wraps it if necessary."""
        self._out.print(Text(start + visible(text)), soft_wrap=True)


class _ScriptSheet(Sheet):
    """Prints the diagnosis of a script, with lines of its source and commands."""

    def __init__(self, case: Case, console: Console, here: str) -> None:
        super().__init__(console)
        self._case, self._here = case, here

    def verdict(self, diagnosis: Diagnosis) -> None:
        """Print the verdict in one line, and its basis."""
        verdict = verdict_of(self._case, diagnosis)
        if diagnosis.unstable is not None:
            self.say(diagnosis.unstable, style="yellow")
        self.say(verdict.said, style=_COLOUR[verdict.severity])
        if verdict.also is not None:
            self.say(verdict.also)
        self.say(sentences.counted(diagnosis.findings))

    def left_out(self, diagnosis: Diagnosis, folder: Path | None) -> None:
        """Print how many findings were not printed, and the command that prints them."""
        rest = sentences.others(diagnosis.findings)
        if not rest:
            return
        target = self._case.script if folder is None else str(folder)
        command = f"hotloop doctor --all {where(SourceLocation(file=target), self._here)}"
        more = "and " if len(rest) < len(diagnosis.findings) else ""
        self.say(f"\n{more}{sentences.counted(rest)}:")
        self._to_copy("   $ ", command)

    def wall(self) -> None:
        """Print the bar with its legend, the speed, and the extent of the observation."""
        self.title(f"where the time goes: {duration(self._case.judged)}")
        if self._case.ledger is not None:
            self._ledger()
            return
        rows, once = sentences.rows(self._case), sentences.once(self._case)
        judged = {row: seconds for row, seconds in rows.items() if row not in once}
        bar_segments = segments(judged, self._out)
        self._out.print(bar(bar_segments))
        shown = [segment for segment in bar_segments if self._case.part(segment.seconds) >= SMALL]
        widest = max((len(segment.name) for segment in shown), default=0)
        for segment in shown:
            self._out.print(segment.mark.append(f"  {self._figures(segment, widest)}", "none"))
        small = [segment for segment in bar_segments if segment not in shown]
        if small:
            names = ", ".join(segment.name for segment in small)
            seconds = sum(segment.seconds for segment in small)
            share = self._case.part(seconds)
            self.say(f"and {names}: {seconds:.2f} s, {share:.1%}")
        if once:
            times = ", ".join(f"{row} {duration(seconds)}" for row, seconds in once.items())
            self.say(f"once, in no share: {times}")
        self.say()
        self.say(sentences.pace(self._case))
        self.say(sentences.observed(self._case))

    def _ledger(self) -> None:
        """Print the ledger as one bar and its largest rows, each with the line that costs."""
        rows = ledger.shown(self._case)
        bar_segments = segments({row.name: row.seconds for row in rows}, self._out)
        self._out.print(bar(bar_segments))
        of_row = {row.name: row for row in rows}
        largest = sorted(bar_segments, key=lambda segment: -segment.seconds)[:LARGEST]
        widest = max((len(segment.name) for segment in largest), default=0)
        for segment in largest:
            share = self._case.part(segment.seconds)
            if share < SMALL:
                continue
            place = of_row[segment.name].place
            line = f"  {segment.name:<{widest}} {share:4.0%} {segment.seconds:7.2f} s"
            if place is not None and segment.name not in _EVERYWHERE and self._out.width >= ROOMY:
                line += f"  {where(place, self._here)}"
            self._out.print(segment.mark.append(line, "none"), soft_wrap=True)
        if times := ", ".join(
            f"{row.name} {duration(row.seconds)}" for row in ledger.once(self._case)
        ):
            self.say(f"once, in no share: {times}")
        self.say()
        self.say(ledger.basis(self._case))
        self.say(sentences.pace(self._case))
        self.say(sentences.observed(self._case))

    def operators(self) -> None:
        """Print the hottest operators of the profile."""
        shown = operators_by_time(self._case)
        if not shown:
            return
        self.title(f"the hottest {len(shown)} operators of a step (--profile)")
        for operator in shown:
            where_run = " ".join(filter(None, (operator.device, operator.dtype)))
            what = f"{operator.name}, {operator.calls:.4g} x a step on {where_run}"
            self._hang(f"{operator.share:4.0%} {moment(operator.seconds):>8} ", what, indent=0)
            self._say_indented(operator.shapes, indent=6)
            if operator.place is not None:
                self._say_indented(where(operator.place, self._here), indent=6, style="cyan")

    def ceilings(self) -> None:
        """Print the ceilings, from short runs with one cost taken away each."""
        self.lines(
            "ceilings, each from a short run (--ceilings)",
            [
                f"{TAKEN_AWAY[ceiling.name]}: {ceiling_in_words(ceiling)}"
                for ceiling in self._case.ceilings
            ],
        )

    def end(self, folder: Path | None, page: Path | None) -> None:
        """Print where the run folder and its page are."""
        paths = {"run folder": folder, "page": page}
        self.say()
        for name, path in paths.items():
            if path is not None:
                self._to_copy(f"{name}: ", where(SourceLocation(file=str(path)), self._here))

    def _figures(self, segment: Segment, widest: int) -> str:
        """Return a line of the legend: the name of a row, its seconds, share and time per step."""
        share = self._case.part(segment.seconds)
        line = f"{segment.name:<{widest}} {segment.seconds:7.2f} s {share:4.0%}"
        per_step = self._case.per_step(segment.seconds) if segment.name in IN_STEP else None
        return (
            f"{line}  {moment(per_step):>8} a step"
            if per_step and self._out.width >= ROOMY
            else line
        )

    def _place(self, place: SourceLocation) -> None:
        self._say_indented(where(place, self._here), style="cyan")
        if (line := quoted(self._case, place)) is not None:
            self._hang("|", line, indent=5)

    def _remedies(self, finding: Finding) -> Iterable[tuple[str, str | None]]:
        script = where(SourceLocation(file=self._case.script), self._here)
        return sentences.remedies(self._case, finding, script)


def show_effects(effects: Sequence[Effect], out: Console) -> None:
    """Print one line for each requested technique, and below it how its effect is known."""
    out.print(Text("\nhotloop: what was put in", style="bold"))
    widest = max((len(effect.technique) for effect in effects), default=0)
    for effect in effects:
        line = Text(f"{visible(effect.technique):<{widest}}  ")
        out.print(line.append(effect.word, _EFFECT_COLOUR[effect.word]))
        out.print(Padding(Text(visible(effect.how)), (0, 0, 0, 3)))


def show_next(case: Case, diagnosis: Diagnosis, out: Console, *, folder: Path | None) -> None:
    """Print the next bottleneck with its ceiling, and the command that shows all findings."""
    verdict = verdict_of(case, diagnosis)
    out.print(Text(f"\nnext: {verdict.said}"))
    if verdict.also is not None:
        out.print(Text(verdict.also))
    if folder is not None:
        location = where(SourceLocation(file=str(folder)), str(Path.cwd()))
        out.print(Text(f"all findings: hotloop doctor --all {location}"), soft_wrap=True)
