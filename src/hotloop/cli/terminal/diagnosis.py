"""What hotloop doctor prints about a script: verdict, where the time goes, findings, what is left.

It goes to the console it is given, stderr: stdout belongs to the script. A `Sheet` prints the
findings of everything else that the doctor looks at as well. Words come before colour,
text of the script is never taken for markup, and every line wraps at 40 columns as at 200.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from hotloop.cli.terminal.share_bar import bar, segments
from hotloop.core.case.case import IN_STEP
from hotloop.core.finding import SourceLocation
from hotloop.core.units import duration, moment
from hotloop.report import sentences
from hotloop.report.excerpt import quoted, visible, where
from hotloop.report.profile import TAKEN_AWAY, ceiling_in_words, operators_by_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from hotloop.cli.terminal.share_bar import Segment
    from hotloop.core.case.case import Case
    from hotloop.core.finding import Diagnosis, Finding

__all__ = ["Sheet", "show"]

ROOMY = 60  # columns from which a row of the legend also tells its time per step
SMALL = 0.005  # share below which rows of the wall time share one line of the legend
INDENT = 3  # columns of what belongs to a finding
LEAST = 10  # columns for a text, however far it is indented
MOST_PLACES = 4  # of one finding; the rest is counted
_COLOUR = {"critical": "bold red", "warn": "bold yellow", "note": "bold", None: "bold green"}


def show(
    case: Case,
    diagnosis: Diagnosis,
    console: Console,
    *,
    folder: Path | None,
    page: Path | None,
    here: Path | None = None,
) -> None:
    """Print the result. `folder` is the run's, `page` its HTML; places are seen from `here`."""
    out = _ScriptSheet(case, console, str(here or Path.cwd()))
    out.verdict(diagnosis)
    out.wall()
    out.findings(diagnosis)
    out.not_worth_it(diagnosis)
    out.operators()
    out.ceilings()
    out.lines("techniques in effect", [f"{id}: {how}" for id, how in case.techniques.items()])
    out.lines("not checked", diagnosis.not_checked)
    out.end(folder, page)


def _with_share(finding: Finding) -> str:
    share = "" if finding.share is None else f"{finding.share:.1%}"
    said = finding.claim.rstrip(". ")
    return f"{said} ({share} of the wall time)" if share not in said else said


class Sheet:
    """Prints findings, and lines under titles, to one console."""

    def __init__(self, console: Console) -> None:
        self._out = console

    def findings(self, diagnosis: Diagnosis) -> None:
        """Print the findings: what, how much, where, on what evidence, and what to do."""
        for number, finding in enumerate(diagnosis.findings, 1):
            word = Text(sentences.WORDS[finding.severity], _COLOUR[finding.severity])
            self.say()
            self._wrapped(Text(f"{number}. "), word.append(f"  {visible(finding.rule)}", "none"))
            self._finding(finding)

    def _finding(self, finding: Finding) -> None:
        self._inset(finding.claim)
        if costs := sentences.cost(finding):
            self._inset("; ".join(costs), style="bold")
        for place in finding.places[:MOST_PLACES]:
            self._place(place)
        if (more := len(finding.places) - MOST_PLACES) > 0:
            self._inset(f"and {more:,} more place{'s' * (more > 1)}")
        for name, seen in finding.evidence.items():
            self._hang("-", f"{visible(name)}: {sentences.reading(seen)}")
        for cause in finding.because:
            self._hang("-", f"because of {cause}")
        for text, typed in self._remedies(finding):
            self._hang("->", text)
            if typed is not None:
                self._to_copy("      $ ", typed)

    def not_worth_it(self, diagnosis: Diagnosis) -> None:
        """Print what would not pay."""
        said = [f"{finding.rule}: {_with_share(finding)}" for finding in diagnosis.not_worth_it]
        self.lines("not worth it", said)

    def lines(self, title: str, lines: Sequence[str]) -> None:
        """Print sentences under a title; nothing where there is none."""
        if lines:
            self.title(title)
        for line in lines:
            self._hang("-", line, indent=0)

    def title(self, text: str) -> None:
        """Print a title."""
        self.say(f"\n{text}", style="bold")

    def say(self, text: str = "", *, style: str = "") -> None:
        """Print text, wrapped."""
        self._wrapped(Text(), Text(visible(text), style=style))

    def _place(self, place: SourceLocation) -> None:
        self._inset(where(place, str(Path.cwd())), style="cyan")

    def _remedies(self, finding: Finding) -> Iterable[tuple[str, str | None]]:
        """Return what to do, and what to type for it where that is known."""
        return [(f"{remedy.text} ({remedy.effort})", None) for remedy in finding.remedies]

    def _inset(self, text: str, *, style: str = "", indent: int = INDENT) -> None:
        self._wrapped(Text(" " * indent), Text(visible(text), style=style))

    def _hang(self, mark: str, text: str, *, indent: int = INDENT) -> None:
        """Print text behind a mark, further lines below the first."""
        self._wrapped(Text(f"{' ' * indent}{mark} "), Text(visible(text)))

    def _wrapped(self, start: Text, body: Text) -> None:
        """Print text behind its start; further lines stand below the first."""
        room = max(LEAST, self._out.width - len(start))
        for n, line in enumerate(body.wrap(self._out, room, overflow="fold")):
            line.rstrip()
            before = start if n == 0 else Text(" " * len(start))
            self._out.print(Text().append(before).append(line), soft_wrap=True)

    def _to_copy(self, start: str, text: str) -> None:
        """Print what is copied from the screen: never broken, the terminal wraps it if it must."""
        self._out.print(Text(start + visible(text)), soft_wrap=True)


class _ScriptSheet(Sheet):
    """Prints the result on a script, with lines of its source and what to type."""

    def __init__(self, case: Case, console: Console, here: str) -> None:
        super().__init__(console)
        self._case, self._here = case, here

    def verdict(self, diagnosis: Diagnosis) -> None:
        """Print the result in one line, and what it rests on."""
        found = sentences.verdict(self._case, diagnosis)
        if diagnosis.unstable is not None:
            self.say(diagnosis.unstable, style="yellow")
        self.say(found.said, style=_COLOUR[found.severity])
        if found.also is not None:
            self.say(found.also)
        self.say(sentences.counted(diagnosis.findings))

    def wall(self) -> None:
        """Print the bar with its legend, the speed, and what was observed."""
        self.title(f"where the time goes: {duration(self._case.judged)}")
        rows, once = sentences.rows(self._case), sentences.once(self._case)
        judged = {row: seconds for row, seconds in rows.items() if row not in once}
        parts = segments(judged, self._out)
        self._out.print(bar(parts))
        shown = [p for p in parts if self._case.part(p.seconds) >= SMALL]
        widest = max((len(part.name) for part in shown), default=0)
        for part in shown:
            self._out.print(part.mark.append(f"  {self._figures(part, widest)}", "none"))
        small = [part for part in parts if part not in shown]
        if small:
            names, seconds = ", ".join(p.name for p in small), sum(p.seconds for p in small)
            share = self._case.part(seconds)
            self.say(f"and {names}: {seconds:.2f} s, {share:.1%}")
        if once:
            said = ", ".join(f"{row} {duration(seconds)}" for row, seconds in once.items())
            self.say(f"once, in no share: {said}")
        self.say()
        self.say(sentences.pace(self._case))
        self.say(sentences.observed(self._case))

    def operators(self) -> None:
        """Print the hottest operators of the profile."""
        shown = operators_by_time(self._case)
        if not shown:
            return
        self.title(f"the hottest {len(shown)} operators of a step (--profile)")
        for each in shown:
            where_run = " ".join(filter(None, (each.device, each.dtype)))
            what = f"{each.name}, {each.calls:.4g} x a step on {where_run}"
            self._hang(f"{each.share:4.0%} {moment(each.seconds):>8} ", what, indent=0)
            self._inset(each.shapes, indent=6)
            if each.place is not None:
                self._inset(where(each.place, self._here), indent=6, style="cyan")

    def ceilings(self) -> None:
        """Print what short runs with one cost taken away reached."""
        self.lines(
            "ceilings, each from a short run (--ceilings)",
            [f"{TAKEN_AWAY[each.name]}: {ceiling_in_words(each)}" for each in self._case.ceilings],
        )

    def end(self, folder: Path | None, page: Path | None) -> None:
        """Print where the run folder and its page are."""
        there = {"run folder": folder, "page": page}
        self.say()
        for name, path in there.items():
            if path is not None:
                self._to_copy(f"{name}: ", where(SourceLocation(file=str(path)), self._here))

    def _figures(self, part: Segment, widest: int) -> str:
        """Return a line of the legend: the row's name, its seconds, share and part of a step."""
        said = f"{part.name:<{widest}} {part.seconds:7.2f} s {self._case.part(part.seconds):4.0%}"
        each = self._case.per_step(part.seconds) if part.name in IN_STEP else None
        return f"{said}  {moment(each):>8} a step" if each and self._out.width >= ROOMY else said

    def _place(self, place: SourceLocation) -> None:
        self._inset(where(place, self._here), style="cyan")
        if (line := quoted(self._case, place)) is not None:
            self._hang("|", line, indent=5)

    def _remedies(self, finding: Finding) -> Iterable[tuple[str, str | None]]:
        script = where(SourceLocation(file=self._case.script), self._here)
        return sentences.remedies(self._case, finding, script)
