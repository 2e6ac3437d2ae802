"""Builds the ledger from the rows of the wall time and the recorded windows."""

from __future__ import annotations

import bisect
import functools
import statistics
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from hotloop.core.after_training import beyond_usual
from hotloop.core.case.ledger import AVOIDABLE, MEANING, NEEDED, ONCE, Ledger, LedgerLine, LedgerRow
from hotloop.observe.hooks.stack_frames import shown
from hotloop.observe.ledger.dataflow import depending, passed_again, purposes, reaching
from hotloop.observe.ledger.losses import crossed, softmax_twice, without_gradient
from hotloop.observe.ledger.places import Function, Places, place_of
from hotloop.observe.ledger.rewrites import rewrites
from hotloop.observe.ledger.steps_of_windows import PHASES, spent, steps_of_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.steps_and_loaders import Loader, Stack
    from hotloop.core.finding import SourceLocation
    from hotloop.observe.ledger.operation import Operation, RawStack
    from hotloop.observe.ledger.places import Line
    from hotloop.observe.ledger.window import Window, WindowProbe
    from hotloop.observe.wall.wall_time import Folded

__all__ = ["build_ledger", "with_repeats"]

LINES = 12  # of a row
_OFTEN = 2.0  # times that a row is used, from which its results may be kept
_SEEN = 0.1  # share of the batches that came in an earlier epoch; of two equal epochs it is 0.5
_EQUAL = 0.5  # share of samples that come again with equal values
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
# Without these operators, what the host does to start them is not done either.
_GONE = ("dead", "repeated", "frozen")
_shown = functools.lru_cache(maxsize=4096)(shown)
# Rows that are no part of the training steps, or that training does not need.
_BESIDE = ONCE | {"evaluating", "saving", "logging", "idle"}


class _Sums:
    """Seconds by row of the ledger, and by line in each row."""

    def __init__(self) -> None:
        self.rows: dict[str, float] = defaultdict(float)
        self.lines: dict[str, dict[Line, float]] = defaultdict(lambda: defaultdict(float))

    def add(self, row: str, seconds: float, line: Line | None = None) -> None:
        """Add seconds to a row and, if it is known, to a line."""
        self.rows[row] += seconds
        if line is not None:
            self.lines[row][line] += seconds

    def move(self, row: str, to: str, seconds: float, line: Line) -> None:
        """Move seconds of a line to another row, at most those that the row has."""
        seconds = min(seconds, self.rows[row])
        self.rows[row] -= seconds
        self.add(to, seconds, line)


def build_ledger(
    probe: WindowProbe | None,
    folded: Folded,
    wall: Mapping[str, float],
    steps: Mapping[int, Mapping[str, float]],
    stacks: Sequence[Stack],
    *,
    started: int,
    least: Callable[[Operation], float],
    kinds: Mapping[int, object],
    sources: Mapping[str, str],
    loaders: Sequence[Loader],
) -> Ledger:
    """Return the ledger of a run.

    `wall` and `steps` are the rows of the run and, by its number, of each step that was not
    recorded, in seconds; `started` is the zero of the times in `folded`, in nanoseconds; `least`
    returns the seconds that an operation needs on this machine. `kinds` says which optimizers, by
    their numbers, do the same: the line that builds them.
    """
    windows = [window for window in probe.windows if window.complete] if probe else []
    recorded = [_Recorded(window, folded, started, least) for window in windows]
    sums, split = _Sums(), set(PHASES) if windows else set[str]()
    for row, whole in wall.items():
        if row not in split:
            sums.add(_NAMES.get(row, "unaccounted"), whole)
    by_window = steps_of_windows(windows, folded, steps, kinds)
    seconds = [spent(of_window, wall, steps) for of_window in by_window]
    operators = _add_operators(sums, zip(recorded, by_window, seconds, strict=True))
    for row in split:  # steps of optimizers that have no window
        sums.add("unaccounted", max(0.0, wall.get(row, 0.0) - sum(one[row] for one in seconds)))
    known = [stack for stack in stacks if stack.row in wall]
    _add_stacks(sums, known, split, recorded)
    _add_starts(sums, [one for one in known if one.row in split], operators, recorded)
    places = Places(
        sources=sources,
        loaders=loaders,
        evaluated=_evaluated(folded),
        batches=set[Function]().union(*(one.batches for one in recorded)),
        source=next((one.source for one in recorded if one.source is not None), None),
    )
    drawn = max((one.drawn for one in recorded), default=0.0)
    recurs = bool(folded.trains) or drawn > 0
    needed = _needed(sums, folded)
    return Ledger(
        rows=tuple(
            _row(name, sums, places, recurs=recurs, needed=needed.get(name, 0.0))
            for name in MEANING
            if sums.rows[name] > 0
        ),
        steps=sum(len(window.recorder.ends) - 1 for window in windows),
        operations=sum(len(window.recorder.operations) for window in windows),
        softmax_twice=softmax_twice(windows),
        crossed=crossed(windows),
        without_gradient=without_gradient(windows),
        drawn=drawn,
        rewrites=rewrites(windows or (probe.windows if probe else [])),
        not_split=None if windows else _why_not(probe, len(steps)),
    )


def _add_operators(
    sums: _Sums,
    windows: Iterable[tuple[_Recorded, Sequence[Mapping[str, float]], Mapping[str, float]]],
) -> dict[SourceLocation | None, float]:
    """Add the operators of all windows; return their seconds by line, without backward passes.

    With each window go the steps that it stands for, and their seconds by part of the step.
    """
    operators: dict[SourceLocation | None, float] = defaultdict(float)
    for one, steps, seconds in windows:
        for row, whole in seconds.items():
            for (name, line), share in one.split(row, steps).items():
                sums.add(name, whole * share, line)
                if row != "backward" and line is not None:
                    operators[place_of(line[1])] += whole * share
    return operators


def _add_stacks(
    sums: _Sums, stacks: Iterable[Stack], split: Collection[str], recorded: Sequence[_Recorded]
) -> None:
    """Add the sampled stacks to the lines; move what Python does for other rows out of "host"."""
    batches = set[Function]().union(*(one.batches for one in recorded))
    reports = set[Function]().union(*(one.reports for one in recorded)) - batches
    training = set[Function]().union(*(one.training for one in recorded))
    again = {name: share for one in recorded for name, share in one.window.calls.again().items()}
    for stack in stacks:
        line = stack.frames[0].function, stack.frames
        functions = {(frame.file, frame.function) for frame in stack.frames if frame.own}
        if stack.row not in split:
            sums.lines[_NAMES.get(stack.row, "unaccounted")][line] += stack.seconds
        elif share := max((again.get(one, 0.0) for one in functions - training), default=0.0):
            sums.move("host", "repeated", share * stack.seconds, line)
            sums.lines["host"][line] += (1 - share) * stack.seconds
        elif not batches.isdisjoint(functions):
            sums.move("host", "waiting for data", stack.seconds, line)
        elif not reports.isdisjoint(functions):
            sums.move("host", "logging", stack.seconds, line)
        else:
            sums.lines["host"][line] += stack.seconds


def _add_starts(
    sums: _Sums,
    stacks: Sequence[Stack],
    operators: Mapping[SourceLocation | None, float],
    recorded: Sequence[_Recorded],
) -> None:
    """Move what the host does to start operators that are not needed out of "host".

    `operators` are the seconds of all operators of a line, which its samples include. What is left
    of the samples tells how the host's time is spread over the lines.
    """
    spread: dict[SourceLocation | None, float] = defaultdict(float)
    for stack in stacks:
        spread[place_of(stack.frames)] += 0.0 if stack.row == "backward" else stack.seconds
    for place in spread:
        spread[place] = max(0.0, spread[place] - operators.get(place, 0.0))
    whole, host = sum(spread.values()), sums.rows["host"]
    scale = min(1.0, host / whole) / len(recorded) if whole else 0.0
    for one in recorded:
        for place, counts in one.by_place.items():
            number = sum(counts.values())
            for (row, line), count in counts.items():
                if row in _GONE and place is not None:
                    sums.move("host", row, scale * spread[place] * count / number, line)


def _needed(sums: _Sums, folded: Folded) -> dict[str, float]:
    """Return the seconds of each row that are within its allowance.

    So is what may be an agent's, passes without gradients, without a loader and in training mode;
    and what comes once after training.
    """
    agents = [one for one in folded.stretches if one.loader is None and one.training_mode]
    stops = ((one.step, one.seconds) for one in folded.stretches if one not in agents)
    training = sum(seconds for name, seconds in sums.rows.items() if name not in _BESIDE)
    needed = {name: share * training for name, share in NEEDED.items()}
    needed["evaluating"] += beyond_usual(stops, len(folded.made)) + sum(s.seconds for s in agents)
    return needed


def with_repeats(ledger: Ledger, case: Case) -> Ledger:
    """Return the ledger with what is known of the samples that come again in the next epoch.

    Samples that are drawn or changed at random do not: then frozen results cannot be kept. Nor can
    those of rows that all steps of the script, if known, use once or seldom.
    """
    train = [one for one in case.loaders if one.role == "train"]
    equal = min((one.repeats for one in train if one.repeats is not None), default=None)
    seen = [one.again for model in case.models for one in model.repeats if one.again is not None]
    is_new = any(one.uses_random for one in train) or (equal is not None and equal < _EQUAL)
    is_new |= bool(seen) and max(seen) < _SEEN
    if not train and case.total_steps is not None:
        is_new = ledger.drawn * case.total_steps < _OFTEN
    rows = []
    for row in ledger.rows:
        if row.name == "frozen":
            row = replace(row, avoidable=row.avoidable and not is_new)
        elif row.name == "waiting for data" and equal is not None:
            row = replace(row, again=equal * row.seconds)
        rows.append(row)
    return replace(ledger, rows=tuple(rows))


def _evaluated(folded: Folded) -> dict[int | None, float]:
    """Return the seconds of the evaluations by the loader that they read."""
    seconds: dict[int | None, float] = defaultdict(float)
    for stretch in folded.stretches:
        seconds[stretch.loader] += stretch.seconds
    return seconds


def _why_not(probe: WindowProbe | None, steps: int) -> str:
    if probe is not None and probe.why_not is not None:
        return probe.why_not
    return f"the run made {steps} complete steps, too few to record some of them"


class _Recorded:
    """A window whose operations are put into the parts of a step."""

    def __init__(
        self,
        window: Window,
        folded: Folded,
        started: int,
        least: Callable[[Operation], float],
    ) -> None:
        self.window = window
        self.seconds: dict[str, dict[tuple[str, Line], float]]
        self.seconds = {phase: defaultdict(float) for phase in PHASES}
        # Operators by row and line: of the backward pass, and of the other parts by place.
        self.backward: dict[tuple[str, Line], float] = defaultdict(float)
        self.by_place: dict[SourceLocation | None, dict[tuple[str, Line], float]]
        self.by_place = defaultdict(lambda: defaultdict(float))
        operations, starts = window.recorder.operations, [start for start, _, _ in folded.pieces]
        pieces = (
            folded.pieces[max(0, bisect.bisect_right(starts, one.start - started) - 1)]
            for one in operations
        )
        self.phases = [row.rstrip(":") for _, _, row in pieces]
        recorder, losses = window.recorder, reaching(operations, window.recorder.losses)
        weighs = depending(operations, lambda one: not recorder.weights.isdisjoint(one.outside))
        self.training = training = self._functions(
            one.stack
            for number, one in enumerate(operations)
            if one.node is not None or one.changed or (number in weighs and number in losses)
        )
        # The functions that make batches: data come in below them that reach the loss.
        used = {address for number in losses for address in operations[number].outside}
        entered = recorder.entered
        sources = [entered[one] for one in (used & entered.keys()) - recorder.state]
        self.batches = self._functions(stack for stack, _ in sources) - training
        largest = max(sources, key=lambda source: source[1], default=None)
        self.source = None if largest is None else place_of(_shown(largest[0]))
        # The functions that only look: values are read below them.
        self.reports = self._functions(recorder.left) - training - self.batches
        # The share of the rows of a table that was there before.
        chosen = (operations[number] for number in losses - weighs)
        self.drawn = max((one.drawn for one in chosen if one.outside), default=0.0)
        self._charge(least)

    @staticmethod
    def _functions(stacks: Iterable[RawStack]) -> set[Function]:
        return {
            (frame.file, frame.function)
            for stack in set(stacks)
            for frame in _shown(stack)
            if frame.own
        }

    def split(
        self, phase: str, steps: Sequence[Mapping[str, float]]
    ) -> dict[tuple[str, Line | None], float]:
        """Return the shares of a part of these steps by row and line, which sum to 1."""
        usual = statistics.median([step.get(phase, 0.0) for step in steps] or [0.0])
        operators = sum(self.seconds[phase].values())
        whole = max(usual, operators)  # recorded operators may have been slower than usual
        if not whole:
            return {("host", None): 1.0}
        shares: dict[tuple[str, Line | None], float] = {
            key: seconds / whole for key, seconds in self.seconds[phase].items()
        }
        host, number = (whole - operators) / whole, sum(self.backward.values())
        shares["host", None] = host
        for (row, line), count in self.backward.items() if phase == "backward" else ():
            if row in _GONE:
                shares[row, line] = shares.get((row, line), 0.0) + host * count / number
                shares["host", None] -= host * count / number
        return shares

    def _charge(self, least: Callable[[Operation], float]) -> None:
        """Add up the operations of one mean step, by part of the step, row and line.

        The last recorded step does not count. An operation of the backward pass is charged to the
        line of its forward operation, one of a further pass to the line that asks for it. Those of
        functions that make batches or only look are left to the sampled stacks.
        """
        recorder, apart = self.window.recorder, self.batches | self.reports
        operations, counted = recorder.operations, recorder.ends[-2]
        again = passed_again(operations, recorder.passes, recorder.ends)
        decided = purposes(
            operations,
            roots=self.window.live,
            weights=recorder.weights,
            state=recorder.state | self.window.written,
            backward={n for n, phase in enumerate(self.phases) if phase == "backward"},
            again=again,
        )
        chains = {one.sequence: one.stack for one in reversed(operations) if one.node is None}
        for number, (one, phase, shares) in enumerate(
            zip(operations[:counted], self.phases, decided, strict=False)
        ):
            stack = one.stack
            if one.node is not None and number not in again:
                stack = chains.get(one.node, stack)
            frames = _shown(stack)
            if phase not in PHASES or any(
                frame.own and (frame.file, frame.function) in apart for frame in frames
            ):
                continue
            seconds = max(0, one.spent - recorder.framework) * 1e-9 / (len(recorder.ends) - 1)
            of_line, line = self.seconds[phase], (one.name.partition("::")[2], frames)
            place = place_of(frames)
            counts = self.backward if phase == "backward" else self.by_place[place]
            for name, share in shares.items():
                counts[name, line] += share
                needed = min(seconds, least(one)) if name == "useful" else seconds
                of_line[name, line] += needed * share
                of_line["inefficient", line] += (seconds - needed) * share


def _row(name: str, sums: _Sums, places: Places, *, recurs: bool, needed: float) -> LedgerRow:
    """Return a row with its lines; the operators and functions of one line are together.

    `recurs`: the same samples come again, so that frozen results could be kept. `needed`: the
    seconds of it that are no waste.
    """
    seconds, of_line = sums.rows[name], sums.lines[name]
    scale = min(1.0, seconds / (sum(of_line.values()) or 1.0))  # samples include operators
    by_place: dict[SourceLocation | None, list[tuple[float, Line]]] = defaultdict(list)
    for line, own in of_line.items():
        by_place[place_of(line[1])].append((own, line))
    lines = []
    for of_entries, entries in by_place.items():
        _, (what, frames) = max(entries, key=lambda entry: entry[0])
        total = scale * sum(own for own, _ in entries)
        lines.append(LedgerLine(what=what, seconds=total, place=of_entries, calls=frames))
    return LedgerRow(
        name=name,
        seconds=seconds,
        avoidable=name in AVOIDABLE and (name != "frozen" or recurs) and seconds > needed,
        place=places.choose(name, sums.lines, [row for row in sums.lines if row not in _BESIDE]),
        lines=tuple(sorted(lines, key=lambda line: -line.seconds)[:LINES]),
        needed=min(seconds, needed),
    )
