"""Folds marks into rows: every nanosecond between its first and its last mark gets one.

A span's row goes by what it is. A gap between spans goes by what stands on both sides; gaps whose
sides leave the row open are split by the stacks that were sampled in them
(observe/wall/attribution.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from hotloop.core.case.case import IN_STEP
from hotloop.observe.hooks.event_buffer import NUMBERS, EventCode
from hotloop.observe.wall.step_boundaries import endings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["OWN", "Folded", "Mark", "Stretch", "fold", "steps_in"]

Mark = tuple[int, int, int]  # nanoseconds, code, number
OWN = "own"  # hotloop's own time: in no row
_NS = 1e-9
_SPANS: Mapping[int, str] = {
    EventCode.BACKWARD: "backward",
    EventCode.UPDATE: "optimizer",
    EventCode.SAVE: "save",
    EventCode.COMPILE: "compile",
    EventCode.OWN: OWN,
    EventCode.WAIT: "host waits",
    EventCode.COPY: "host to device",
}
_OVERRULES = (OWN, "save", "compile")  # wherever they happen
_CALLS = (EventCode.FORWARD, EventCode.EVAL, EventCode.SILENT)
_DATA = (EventCode.NEXT, EventCode.ITERATE)
_OF_LOADERS = (*_DATA, EventCode.BATCH, EventCode.ITERATE_END, EventCode.EXHAUSTED)
# Rows of a step; elsewhere they are part of what they stand in.
_WAITS = (EventCode.WAIT, EventCode.COPY)
_SOLID = (EventCode.BACKWARD, EventCode.UPDATE)
_FEWEST = 10  # of what is done without gradients, before it is taken for a part of the steps
_NO_STEP = ("evaluate", "start:", "after training:")
# A gap looks through these at what stands behind.
_CLEAR = (EventCode.SAVE, EventCode.COMPILE, EventCode.OWN, *_WAITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """An evaluation: from its first batch or forward pass to the next training event."""

    start: int  # ns
    end: int
    seconds: float
    step: int
    batches: int
    loader: int | None
    with_grad: bool
    training_mode: bool


@dataclass(slots=True, kw_only=True)
class Folded:
    """What a tape says. Times in seconds, `pieces` in nanoseconds."""

    rows: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    pieces: list[tuple[int, int, str]] = field(default_factory=list)  # (start, end, row)
    steps: list[dict[str, float]] = field(default_factory=list)  # of each whole step: its rows
    ends: list[int] = field(default_factory=list)  # ns, of every step, the first included
    made: list[int] = field(default_factory=list)  # updates until each of `ends`
    how: str = "none"
    optimizers: int = 0  # of the step that has most
    updates: Counter[int] = field(default_factory=Counter)  # of each optimizer
    order: list[int] = field(default_factory=list)  # optimizer of each update
    backwards: list[int] = field(default_factory=list)  # per step
    trailing: int = 0  # backward calls after the last step
    stretches: list[Stretch] = field(default_factory=list)
    trains: set[int] = field(default_factory=set)  # numbers of loaders that feed training
    evaluates: set[int] = field(default_factory=set)
    waits: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    first_waits: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    last_waits: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    epochs: Counter[int] = field(default_factory=Counter)  # of each loader
    roots: Counter[tuple[int, str]] = field(default_factory=Counter)  # (module, how) -> calls

    def steps_after(self, updates: int) -> int:
        """Return how many steps are over after so many updates of whatever optimizer."""
        return bisect_right(self.made, updates)


def fold(marks: Sequence[Mark], unset: Collection[int] = ()) -> Folded:
    """Return rows, steps and evaluations of a tape whose marks are in the order of time.

    `unset`: the times of calls without gradients whose module was not in evaluation mode.
    """
    folded = Folded()
    kinds = _kinds(marks)
    _of_loaders(marks, kinds, folded)
    ends = _step_ends(marks, folded)
    _evaluations(marks, kinds, ends, folded, frozenset(unset))
    _walk(marks, kinds, set(ends), folded)
    _loaders(marks, folded)
    return folded


def steps_in(marks: Sequence[Mark]) -> int:
    """Return how many steps a tape has so far, as `fold` counts them."""
    return len(_step_ends(marks, Folded()))


def _kinds(marks: Sequence[Mark]) -> list[str]:
    """Say of each mark whether it belongs to training or to an evaluation ("" for neither)."""
    graded = {n for _, code, n in marks if code == EventCode.FORWARD}
    unfinished = _unfinished(marks)
    learns = False  # a backward pass follows before the next batch or update
    trained = set[int]()  # modules whose call in training mode feeds that backward pass
    kinds, ended = [""] * len(marks), dict[int, str]()
    for i in range(len(marks) - 1, -1, -1):
        _, code, number = marks[i]
        if code == EventCode.BACKWARD:
            learns, kinds[i] = True, "train"
            trained.clear()
        elif code in (EventCode.NEXT, EventCode.ITERATE):
            learns = False
        elif code - 1 in _CALLS:
            opening = code - 1
            evaluates = opening == EventCode.EVAL and (number in graded or not learns)
            evaluates |= opening == EventCode.SILENT and number in trained
            if opening == EventCode.FORWARD:
                trained.add(number)
            trains = learns or i > unfinished
            ended[number] = "evaluate" if evaluates or not trains else "train"
            kinds[i] = ended[number]
        elif code in _CALLS:
            kinds[i] = ended.get(number, "train")
        if code in (EventCode.BACKWARD_END, EventCode.UPDATE, EventCode.UPDATE_END):
            kinds[i] = "train"
    return kinds


def _unfinished(marks: Sequence[Mark]) -> int:
    """Return the mark after which a step began that the end of the script cut short.

    What is called once after the last backward pass is such a step, several calls an evaluation.
    """
    solid = [i for i, (_, code, _) in enumerate(marks) if code in _SOLID]
    last = solid[-1] if solid else -1
    calls = Counter(number for _, code, number in marks[last + 1 :] if code in _CALLS)
    return last if max(calls.values(), default=0) <= 1 else len(marks)


def _of_loaders(marks: Sequence[Mark], kinds: list[str], folded: Folded) -> None:
    """Say of each epoch of each loader what it feeds: what is called on its batches."""
    epoch: dict[int, int] = defaultdict(int)
    votes: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    owner: list[tuple[int, int] | None] = []
    last: tuple[int, int] | None = None
    first = next(
        (i for i, (_, code, _) in enumerate(marks) if code == EventCode.BACKWARD), len(marks)
    )
    early = {number for _, code, number in marks[:first] if code == EventCode.BATCH}
    scored = 0  # calls without gradients on the last batch, in a row
    for i, (_, code, number) in enumerate(marks):
        if code == EventCode.ITERATE:
            epoch[number] += 1
        data = code in _OF_LOADERS
        owner.append((number, epoch[number]) if data else None)
        if code == EventCode.BATCH:
            last, scored = (number, epoch[number]), 0
        elif code in (EventCode.EXHAUSTED, EventCode.UPDATE_END):
            last = None
        elif code in _CALLS and last is not None:
            votes[last][kinds[i]] += 1
            scored += kinds[i] == "evaluate"
            if kinds[i] == "train" and last[0] in early:  # they chose what of it to train on
                votes[last]["evaluate"] -= scored
                scored = 0
    decided = {key: count.most_common(1)[0][0] for key, count in votes.items()}
    for i, key in enumerate(owner):
        if key is not None:
            kinds[i] = decided.get(key, "train")
            (folded.trains if kinds[i] == "train" else folded.evaluates).add(key[0])


def _step_ends(marks: Sequence[Mark], folded: Folded) -> list[int]:
    """Return the marks that end a step: optimizers' updates, or backward passes without any."""
    updates = [i for i, (_, code, _) in enumerate(marks) if code == EventCode.UPDATE_END]
    numbers = [marks[i][2] for i in updates]
    folded.updates, folded.order, folded.how = Counter(numbers), numbers, "optimizer"
    if not updates:
        updates = [i for i, (_, code, _) in enumerate(marks) if code == EventCode.BACKWARD_END]
        numbers = [0] * len(updates)
        folded.how = "backward" if updates else "none"
    last, most = endings(numbers)
    folded.optimizers = most if folded.updates else 0
    folded.made = [index + 1 for index in last]
    return [updates[index] for index in last]


def _evaluations(
    marks: Sequence[Mark],
    kinds: list[str],
    ends: Sequence[int],
    folded: Folded,
    unset: frozenset[int],
) -> None:
    """Find the evaluations; what the steps themselves do without gradients is training after all.

    An agent acts, hard examples are looked for: such calls become training in `kinds`.
    """
    stretches: list[tuple[list[int], Stretch]] = []
    inside: list[int] = []
    for i, kind in enumerate([*kinds, "train"]):
        if kind == "evaluate":
            inside.append(i)
        elif kind == "train" and inside:
            until = marks[min(i, len(marks) - 1)][0]
            step = bisect_right(ends, inside[0])
            inside_marks = [marks[k] for k in inside]
            stretches.append((inside, _stretch(inside_marks, until, step, unset)))
            inside = []
    in_steps = set(_in_steps([stretch for _, stretch in stretches], len(ends)))
    for inside, stretch in stretches:
        if stretch not in in_steps:
            folded.stretches.append(stretch)
        else:
            for i in inside:
                kinds[i] = "train"


def _in_steps(stretches: Sequence[Stretch], steps: int) -> list[Stretch]:
    """Return what looks like evaluations and is part of the steps.

    It reads no loader of its own, and nearly every step begins with it, the first one too; or it
    is a single call, in one of three steps or more, or at no fixed distance (an agent that acts by
    chance too). What comes after each step is an evaluation.
    """
    own = [stretch for stretch in stretches if stretch.loader is None]
    among = {stretch.step for stretch in own}
    if len(among - {0, steps}) >= max(_FEWEST, 0.9 * (steps - 1)):
        if 0 not in among:
            return []
        # As much after the last step: what came before the first was an evaluation too.
        if own[-1].step < steps or own[-1].batches != own[0].batches:
            return [stretch for stretch in own if stretch.step < steps]
    single = [stretch for stretch in own if stretch.batches == 1]
    between = Counter(after.step - one.step for one, after in pairwise(single))
    often = len(single) >= steps / 3 or max(between.values(), default=0) < len(single) / 2
    return single if len(single) >= _FEWEST and often else []


def _row(code: int, kind: str) -> str:
    if code in _SPANS:
        return _SPANS[EventCode(code)]
    if kind == "evaluate":
        return "evaluate"
    return "data wait" if code in _DATA else "forward"


class _Walk:
    """Where the walk stands."""

    def __init__(self) -> None:
        self.open: list[tuple[int, str, int]] = []  # (code, row, number), innermost last
        self.step: dict[str, float] = defaultdict(float)
        self.before: tuple[int, str] | None = None  # last mark that a gap goes by: code, kind
        self.backwards = 0


def _walk(marks: Sequence[Mark], kinds: Sequence[str], ends: set[int], folded: Folded) -> None:
    after = _next_solid(marks)
    state = _Walk()
    for i, (time, code, number) in enumerate(marks):
        if i:
            row = state.open[-1][1] if state.open else _gap(state.before, marks, kinds, after[i])
            _add(folded, state, marks[i - 1][0], time, row)
        if code != EventCode.END and code % 2 == 0:
            row = _row(code, kinds[i])
            outer = state.open[-1][1] if state.open else ""
            if code == EventCode.UPDATE:  # one that raised was never closed
                _close(state.open, code, number)
                outer = state.open[-1][1] if state.open else ""
            if code in _WAITS:
                around = outer or _gap(state.before, marks, kinds, after[i])
                row = around if around in _NO_STEP else row
            state.open.append((code, outer if outer in _OVERRULES else row, number))
            if code in _CALLS:
                folded.roots[number, kinds[i]] += 1
        else:
            _close(state.open, EventCode.NEXT if code == EventCode.EXHAUSTED else code - 1, number)
        if code & ~1 not in _CLEAR:
            state.before = (code, kinds[i])
        state.backwards += code == EventCode.BACKWARD
        if i in ends:
            _end_step(folded, state, time)
    folded.trailing = state.backwards


def _close(open_: list[tuple[int, str, int]], code: int, number: int) -> None:
    """Close the innermost span of a code; those opened in it were left by an exception."""
    for depth in range(len(open_) - 1, -1, -1):
        if open_[depth][0] == code and open_[depth][2] == number:
            del open_[depth:]
            return


def _next_solid(marks: Sequence[Mark]) -> list[int]:
    """Return for each mark the index of the next one, itself included, that a gap goes by."""
    after, following = [0] * len(marks), len(marks) - 1
    for i in range(len(marks) - 1, -1, -1):
        if marks[i][1] & ~1 not in _CLEAR:
            following = i
        after[i] = following
    return after


def _gap(
    before: tuple[int, str] | None, marks: Sequence[Mark], kinds: Sequence[str], next_: int
) -> str:
    """Return the row of the time between two spans; a name with ":" is split by stacks later."""
    code, kind = marks[next_][1], kinds[next_]
    if before is None:
        return "start:"
    last_code, last_kind = before
    if last_kind == "evaluate":
        return "evaluate"
    if code == EventCode.END:
        return "after training:"
    if kind == "evaluate":
        return "after step:"
    if last_code in (EventCode.BATCH, EventCode.ITERATE_END):
        return "data wait" if code in _DATA else "prepare"
    if last_code - 1 in _CALLS:
        return "forward" if code not in _DATA else "after step:"
    if last_code == EventCode.BACKWARD_END and code in (EventCode.UPDATE, EventCode.BACKWARD):
        return "optimizer" if code == EventCode.UPDATE else "backward"
    if last_code == EventCode.UPDATE_END and code == EventCode.UPDATE:
        return "optimizer"
    return "after step:"


def _add(folded: Folded, state: _Walk, start: int, end: int, row: str) -> None:
    seconds = (end - start) * _NS
    folded.rows[row] += seconds
    state.step[row] += seconds
    if folded.pieces and folded.pieces[-1][2] == row:
        folded.pieces[-1] = (folded.pieces[-1][0], end, row)
    else:
        folded.pieces.append((start, end, row))


def _end_step(folded: Folded, state: _Walk, time: int) -> None:
    if folded.ends:  # what came before the first step's end began with the script
        folded.steps.append({row: s for row, s in state.step.items() if row.rstrip(":") in IN_STEP})
        folded.backwards.append(state.backwards)
    folded.ends.append(time)
    state.step.clear()
    state.backwards = 0


def _stretch(inside: Sequence[Mark], until: int, step: int, unset: frozenset[int]) -> Stretch:
    calls = [code for _, code, _ in inside if code in _CALLS]
    # A single step that was left out among them is no evaluation with gradients.
    graded = all(code != EventCode.EVAL for code in calls) or EventCode.SILENT in calls
    loaders = [number for _, code, number in inside if code in _DATA and number < NUMBERS - 1]
    start = inside[0][0]
    return Stretch(
        start=start,
        end=until,
        seconds=(until - start) * _NS,
        step=step,
        batches=len(calls),
        loader=loaders[0] if loaders else None,
        with_grad=graded,
        training_mode=all(
            code == EventCode.FORWARD or time in unset for time, code, _ in inside if code in _CALLS
        ),
    )


def _loaders(marks: Sequence[Mark], folded: Folded) -> None:
    request_times, starting = dict[int, int](), dict[int, int]()
    fresh: dict[int, float] = {}
    for time, code, number in marks:
        if code == EventCode.ITERATE:
            starting[number] = time
            folded.epochs[number] += 1
        elif code == EventCode.ITERATE_END:
            fresh[number] = (time - starting.pop(number, time)) * _NS
        elif code == EventCode.NEXT:
            request_times[number] = time
        elif code == EventCode.EXHAUSTED and number in request_times:
            folded.last_waits[number].append((time - request_times.pop(number)) * _NS)
        elif code == EventCode.BATCH and number in request_times:
            wait = (time - request_times.pop(number)) * _NS
            if number in fresh:
                folded.first_waits[number].append(wait + fresh.pop(number))
            folded.waits[number].append(wait)
