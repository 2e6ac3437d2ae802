"""Builds the ledger from the rows of the wall time and the recorded windows."""

from __future__ import annotations

import bisect
import functools
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from hotloop.core.case.ledger import MEANING, Ledger, LedgerLine, LedgerRow
from hotloop.core.finding import SourceLocation
from hotloop.observe.hooks.stack_frames import shown
from hotloop.observe.ledger.dataflow import depending, purposes, reaching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hotloop.core.case.steps_and_loaders import Frame, Stack
    from hotloop.observe.ledger.recorder import Operation
    from hotloop.observe.ledger.window import Window, WindowProbe
    from hotloop.observe.wall.wall_time import Folded

__all__ = ["build_ledger", "window_excess"]

LINES = 12  # of a row
_DOMINANT = 0.75  # of a row's time: the line below which so much of it is spent stands for it
_PHASES = ("prepare", "forward", "backward", "optimizer", "after step")  # split by operators
_NAMES = {  # row of the wall time -> row of the ledger
    "start": "start",
    "data load": "start",
    "import": "import",
    "compile": "compiling",
    "data wait": "waiting for data",
    "host to device": "moved",
    "host waits": "waiting for the device",
    "exchange": "exchanging",
    "evaluate": "evaluating",
    "save": "saving",
    "log": "logging",
    "idle": "idle",
    "after training": "after training",
}
_shown = functools.lru_cache(maxsize=4096)(shown)
# An operator or function, and its call chain.
_Line = tuple[str, "tuple[Frame, ...]"]
_Function = tuple[str, str]  # file and qualified name
Rate = "Callable[[Operation], float]"


def window_excess(
    windows: Sequence[Window], folded: Folded, steps: Sequence[Mapping[str, float]]
) -> tuple[dict[str, float], set[int]]:
    """Return by how many seconds recording made each row longer, and the recorded steps.

    Both count steps as `steps` does. The median step outside the windows is the measure.
    """
    recorded = {
        number
        for window in windows
        for number in range(folded.steps_after(window.first) - 1, folded.steps_after(window.last))
        if 0 <= number < len(steps)
    }
    others = [step for number, step in enumerate(steps) if number not in recorded]
    excess: dict[str, float] = {}
    for row in {row for step in steps for row in step} if others else ():
        usual = statistics.median(step.get(row, 0.0) for step in others)
        excess[row] = sum(max(0.0, steps[number].get(row, 0.0) - usual) for number in recorded)
    return excess, recorded


class _Sums:
    """Seconds by row of the ledger, and by line in each row."""

    def __init__(self) -> None:
        self.rows: dict[str, float] = defaultdict(float)
        self.lines: dict[str, dict[_Line, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, row: str, seconds: float, line: _Line | None = None) -> None:
        """Add seconds to a row and, if it is known, to a line."""
        self.rows[row] += seconds
        if line is not None:
            self.lines[row][line] += seconds

    def move(self, row: str, to: str, seconds: float, line: _Line) -> None:
        """Move seconds of a line to another row, at most those that the row has."""
        seconds = min(seconds, self.rows[row])
        self.rows[row] -= seconds
        self.add(to, seconds, line)


def build_ledger(
    probe: WindowProbe | None,
    folded: Folded,
    wall: Mapping[str, float],
    steps: Sequence[Mapping[str, float]],
    stacks: Sequence[Stack],
    *,
    started: int,
    least: Callable[[Operation], float],
) -> Ledger:
    """Return the ledger of a run.

    `wall` and `steps` are the rows of the run and of each step that was not recorded, in seconds;
    `started` is the zero of the times in `folded`, in nanoseconds; `least` returns the seconds that
    an operation needs on this machine.
    """
    windows = [window for window in probe.windows if window.complete] if probe else []
    recorded = [_Recorded(window, folded, started) for window in windows]
    sums, split = _Sums(), _split(recorded, steps, least) if recorded else {}
    for row, seconds in wall.items():
        if row not in split:
            sums.add(_NAMES.get(row, "not split"), seconds)
            continue
        for (name, line), share in split[row].items():
            sums.add(name, seconds * share, line)
    batches = set[_Function]().union(*(one.batches for one in recorded))
    reports = set[_Function]().union(*(one.reports for one in recorded)) - batches
    for stack in stacks:
        line = stack.frames[0].function, stack.frames
        functions = {(frame.file, frame.function) for frame in stack.frames if frame.own}
        name = _NAMES.get(stack.row, "not split")
        if stack.row not in split:
            sums.lines[name][line] += stack.seconds
        elif not batches.isdisjoint(functions):
            sums.move("host", "waiting for data", stack.seconds, line)
        elif not reports.isdisjoint(functions):
            sums.move("host", "logging", stack.seconds, line)
        else:
            sums.lines["host"][line] += stack.seconds
    return Ledger(
        rows=tuple(
            _row(name, sums.rows[name], sums.lines[name]) for name in MEANING if sums.rows[name] > 0
        ),
        steps=sum(len(window.recorder.ends) - 1 for window in windows),
        operations=sum(len(window.recorder.operations) for window in windows),
        not_split=None if windows else _why_not(probe, len(steps)),
    )


def _why_not(probe: WindowProbe | None, steps: int) -> str:
    if probe is not None and probe.why_not is not None:
        return probe.why_not
    return f"the run made {steps} complete steps, too few to record some of them"


class _Recorded:
    """A window whose operations are put into the parts of a step."""

    def __init__(self, window: Window, folded: Folded, started: int) -> None:
        self.window = window
        operations, starts = window.recorder.operations, [start for start, _, _ in folded.pieces]
        pieces = (
            folded.pieces[max(0, bisect.bisect_right(starts, one.start - started) - 1)]
            for one in operations
        )
        self.phases = [row.rstrip(":") for _, _, row in pieces]
        recorder, losses = window.recorder, reaching(operations, window.recorder.losses)
        weighs = depending(operations, lambda one: not recorder.weights.isdisjoint(one.outside))
        training = self._functions(
            one.stack
            for number, one in enumerate(operations)
            if one.node is not None or one.changed or (number in weighs and number in losses)
        )
        # The functions that make batches: data come in below them that reach the loss.
        used = {address for number in losses for address in operations[number].outside}
        entered = recorder.entered
        self.batches = self._functions(entered[one] for one in used & entered.keys()) - training
        # The functions that only look: values are read below them.
        self.reports = self._functions(recorder.left) - training - self.batches

    @staticmethod
    def _functions(stacks: Iterable[object]) -> set[_Function]:
        return {
            (frame.file, frame.function)
            for stack in set(stacks)
            for frame in _shown(stack)  # type: ignore[arg-type]
            if frame.own
        }

    def charged(self, least: Callable[[Operation], float]) -> Iterator[tuple[str, str, _Line, float]]:
        """Yield part of the step, row, line and seconds of the operations of all steps but the last.

        An operation of the backward pass is charged to the line of its forward operation. Those of
        functions that make batches or only look are left to the sampled stacks.
        """
        recorder, apart = self.window.recorder, self.batches | self.reports
        operations = recorder.operations
        decided = purposes(
            operations,
            roots=self.window.live,
            weights=recorder.weights,
            state=recorder.state,
            backward={n for n, phase in enumerate(self.phases) if phase == "backward"},
        )
        chains = {one.sequence: one.stack for one in reversed(operations) if one.node is None}
        for number in range(recorder.ends[-2]):
            one, phase = operations[number], self.phases[number]
            if phase not in _PHASES:
                continue
            frames = _shown(one.stack if one.node is None else chains.get(one.node, one.stack))
            if any(frame.own and (frame.file, frame.function) in apart for frame in frames):
                continue
            seconds = max(0, one.spent - recorder.framework) * 1e-9
            line = one.name.partition("::")[2], frames
            for name, share in decided[number].items():
                if name == "useful":
                    needed = min(seconds * share, least(one) * share)
                    yield phase, "inefficient", line, seconds * share - needed
                    yield phase, "useful", line, needed
                else:
                    yield phase, name, line, seconds * share


def _split(
    recorded: Sequence[_Recorded],
    steps: Sequence[Mapping[str, float]],
    least: Callable[[Operation], float],
) -> dict[str, dict[tuple[str, _Line | None], float]]:
    """Return for each part of a step the shares of its time by row and line, which sum to 1."""
    spent: dict[str, dict[tuple[str, _Line | None], float]]
    spent = {phase: defaultdict(float) for phase in _PHASES}
    for one in recorded:
        weight = 1.0 / (len(one.window.recorder.ends) - 1) / len(recorded)
        for phase, name, line, seconds in one.charged(least):
            spent[phase][name, line] += seconds * weight
    split = {}
    for phase, of_line in spent.items():
        usual = statistics.median([step.get(phase, 0.0) for step in steps] or [0.0])
        operators = sum(of_line.values())
        whole = max(usual, operators)  # recorded operators may have been slower than usual
        split[phase] = {key: seconds / whole for key, seconds in of_line.items()}
        split[phase]["host", None] = (whole - operators) / whole if whole else 1.0
    return split


def _row(name: str, seconds: float, of_line: Mapping[_Line, float]) -> LedgerRow:
    """Return a row with its lines; the operators and functions of one line are together."""
    scale = min(1.0, seconds / (sum(of_line.values()) or 1.0))  # samples include operators
    by_place: dict[SourceLocation | None, list[tuple[float, _Line]]] = defaultdict(list)
    for line, spent in of_line.items():
        by_place[_place(line[1])].append((spent, line))
    lines = []
    for place, entries in by_place.items():
        _, (what, frames) = max(entries, key=lambda entry: entry[0])
        total = scale * sum(spent for spent, _ in entries)
        lines.append(LedgerLine(what=what, seconds=total, place=place, calls=frames))
    return LedgerRow(
        name=name,
        seconds=seconds,
        place=_dominant(of_line),
        lines=tuple(sorted(lines, key=lambda line: -line.seconds)[:LINES]),
    )


def _place(frames: Sequence[Frame]) -> SourceLocation | None:
    own = next((frame for frame in frames if frame.own), None)
    return SourceLocation(file=own.file, line=own.line) if own else None


def _dominant(of_line: Mapping[_Line, float]) -> SourceLocation | None:
    """Return the innermost line of the project below which most of the time is spent."""
    chains = [
        ([frame for frame in reversed(frames) if frame.own], seconds)
        for (_, frames), seconds in of_line.items()
    ]
    whole, depth = sum(seconds for _, seconds in chains), 0
    place: SourceLocation | None = None
    while True:
        sums: dict[SourceLocation, float] = defaultdict(float)
        for own, seconds in chains:
            if depth < len(own):
                sums[SourceLocation(file=own[depth].file, line=own[depth].line)] += seconds
        best = max(sums, key=lambda one: sums[one], default=None)
        if best is None or sums[best] < _DOMINANT * whole:
            return place
        chains = [
            (own, seconds)
            for own, seconds in chains
            if depth < len(own)
            and (own[depth].file, own[depth].line) == (best.file, best.line)
        ]
        place, depth = best, depth + 1
