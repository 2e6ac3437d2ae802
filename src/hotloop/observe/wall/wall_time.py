"""Folds marks into rows: every nanosecond between the first and the last mark gets one.

The kind of a span decides its row. The row of a gap depends on the spans on both sides; where they
leave it open, the gap is split by the stacks that were sampled in it
(observe/wall/attribution.py).
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotloop.core.case.case import IN_STEP
from hotloop.observe.hooks.event_buffer import NUMBERS, EventCode
from hotloop.observe.wall.modes import ModeCounts, modes
from hotloop.observe.wall.step_boundaries import endings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = ["OWN", "QUEUED", "Folded", "Mark", "Stretch", "fold", "steps_in"]

Mark = tuple[int, int, int]  # nanoseconds, code, number
OWN, QUEUED = "own", "queued"  # hotloop's time, and the GPU's on queued steps: no rows of the case
_STEP = (*IN_STEP, QUEUED)
_NS = 1e-9
_SPANS: Mapping[int, str] = {
    EventCode.BACKWARD: "backward",
    EventCode.UPDATE: "optimizer",
    EventCode.SAVE: "save",
    EventCode.COMPILE: "compile",
    EventCode.OWN: OWN,
    EventCode.WAIT: "host waits",
    EventCode.COPY: "host to device",
    EventCode.QUEUED: QUEUED,
}
_OVERRULES = (OWN, "save", "compile")  # these rows include all spans inside
_CALLS = (EventCode.FORWARD, EventCode.EVAL, EventCode.SILENT)
_DATA = (EventCode.NEXT, EventCode.ITERATE)
_OF_LOADERS = (*_DATA, EventCode.BATCH, EventCode.ITERATE_END, EventCode.EXHAUSTED)
# Rows of a step; elsewhere they are part of the surrounding row.
_WAITS = (EventCode.WAIT, EventCode.COPY, EventCode.QUEUED)
_SOLID = (EventCode.BACKWARD, EventCode.UPDATE)
_FEWEST = 10  # stretches without gradients from which they may count as a part of the steps
_NO_STEP = ("evaluate", "start:", "after training:")
# A gap ignores these spans and goes by the next ones.
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
    """The result of folding an event buffer. Times are in seconds, `pieces` in nanoseconds."""

    rows: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    pieces: list[tuple[int, int, str]] = field(default_factory=list)  # (start, end, row)
    steps: list[dict[str, float]] = field(default_factory=list)  # rows of each complete step
    ends: list[int] = field(default_factory=list)  # ns, of every step, the first included
    made: list[int] = field(default_factory=list)  # updates until each of `ends`
    how: str = "none"
    optimizers: int = 0  # of the step with the most
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
    modes: Mapping[int, ModeCounts] = field(default_factory=dict)  # by module

    def steps_after(self, updates: int) -> int:
        """Return how many steps are complete after this many updates of all optimizers."""
        return bisect_right(self.made, updates)


def fold(marks: Sequence[Mark], unset: Collection[int] = ()) -> Folded:
    """Return rows, steps and evaluations of marks that are in order of time.

    `unset`: the times of calls without gradients whose module was not in evaluation mode.
    """
    folded = Folded()
    kinds = _kinds(marks)
    _of_loaders(marks, kinds, folded)
    ends = _step_ends(marks, folded)
    _evaluations(marks, kinds, ends, folded, frozenset(unset))
    _walk(marks, kinds, set(ends), folded)
    _loaders(marks, folded)
    own = [s for s in folded.stretches if s.loader is not None and s.loader not in folded.trains]
    folded.modes = modes(marks, unset, [(stretch.start, stretch.end) for stretch in own])
    return folded


def steps_in(marks: Sequence[Mark]) -> int:
    """Return how many steps the marks contain, as `fold` counts them."""
    return len(_step_ends(marks, Folded()))


def _kinds(marks: Sequence[Mark]) -> list[str]:
    """Return for each mark "train", "evaluate" or, if it belongs to neither, ""."""
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
    """Return the mark after which an unfinished step begins that the end of the script cut short.

    A single call after the last backward pass is such a step; several calls are an evaluation.
    """
    solid = [i for i, (_, code, _) in enumerate(marks) if code in _SOLID]
    last = solid[-1] if solid else -1
    calls = Counter(number for _, code, number in marks[last + 1 :] if code in _CALLS)
    return last if max(calls.values(), default=0) <= 1 else len(marks)


def _of_loaders(marks: Sequence[Mark], kinds: list[str], folded: Folded) -> None:
    """Set in `kinds` what each epoch of each loader feeds, by the calls on its batches."""
    epoch: dict[int, int] = defaultdict(int)
    votes: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    owner: list[tuple[int, int] | None] = []
    last: tuple[int, int] | None = None
    before = itertools.takewhile(lambda mark: mark[1] != EventCode.BACKWARD, marks)
    early = {number for _, code, number in before if code == EventCode.BATCH}
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
            if kinds[i] == "train" and last[0] in early:  # they chose the samples to train on
                votes[last]["evaluate"] -= scored
                scored = 0
    decided = {key: count.most_common(1)[0][0] for key, count in votes.items()}
    for i, key in enumerate(owner):
        if key is not None:
            kinds[i] = decided.get(key, "train")
            (folded.trains if kinds[i] == "train" else folded.evaluates).add(key[0])


def _step_ends(marks: Sequence[Mark], folded: Folded) -> list[int]:
    """Return the marks that end a step: updates or, without optimizers, backward passes."""
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
    """Find the evaluations; calls without gradients that are part of the steps are training.

    An agent acts, hard examples are mined: such calls become "train" in `kinds`.
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
    """Return the stretches that look like evaluations but are part of the steps.

    They read no loader of their own, and nearly every step begins with one, including the first; or
    they are single calls, in at least one of three steps or at no fixed distance (an agent that
    sometimes acts at random). A stretch after each step is an evaluation.
    """
    own = [stretch for stretch in stretches if stretch.loader is None]
    among = {stretch.step for stretch in own}
    if len(among - {0, steps}) >= max(_FEWEST, 0.9 * (steps - 1)):
        if 0 not in among:
            return []
        # An equal stretch after the last step: then that before the first was an evaluation too.
        if own[-1].step < steps or own[-1].batches != own[0].batches:
            return [stretch for stretch in own if stretch.step < steps]
    single = [stretch for stretch in own if stretch.batches == 1]
    between = Counter(after.step - one.step for one, after in itertools.pairwise(single))
    often = len(single) >= steps / 3 or max(between.values(), default=0) < len(single) / 2
    return single if len(single) >= _FEWEST and often else []


def _row(code: int, kind: str) -> str:
    other = "data wait" if code in _DATA else "forward"
    return _SPANS.get(code, "evaluate" if kind == "evaluate" else other)


class _Walk:
    """The state of the walk."""

    def __init__(self) -> None:
        self.open: list[tuple[int, str, int]] = []  # (code, row, number), innermost last
        self.step: dict[str, float] = defaultdict(float)
        self.before: tuple[int, str] | None = None  # the last mark that decides a gap: code, kind
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
            if code == EventCode.UPDATE:  # an update that raised was never closed
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
    """Close the innermost span with this code, and the spans in it that an exception left open."""
    for depth in range(len(open_) - 1, -1, -1):
        if open_[depth][0] == code and open_[depth][2] == number:
            del open_[depth:]
            return


def _next_solid(marks: Sequence[Mark]) -> list[int]:
    """Return for each mark the index of the next one, itself included, that decides a gap."""
    after, following = [0] * len(marks), len(marks) - 1
    for i in range(len(marks) - 1, -1, -1):
        if marks[i][1] & ~1 not in _CLEAR:
            following = i
        after[i] = following
    return after


def _gap(
    before: tuple[int, str] | None, marks: Sequence[Mark], kinds: Sequence[str], next_: int
) -> str:
    """Return the row of a gap between two spans; a name with ":" is split by stacks later."""
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
    if folded.ends:  # the time before the end of the first step includes the script's start
        folded.steps.append({row: s for row, s in state.step.items() if row.rstrip(":") in _STEP})
        folded.backwards.append(state.backwards)
    folded.ends.append(time)
    state.step.clear()
    state.backwards = 0


def _stretch(inside: Sequence[Mark], until: int, step: int, unset: frozenset[int]) -> Stretch:
    calls = [code for _, code, _ in inside if code in _CALLS]
    # One skipped training step among them does not make it an evaluation with gradients.
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
