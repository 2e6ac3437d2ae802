"""How many optimizer steps the script will make, where its code or a library proves it.

At some updates the loops on the stack are read (observe/loops/code.py). After the run the reduced
loops are executed, and their counts are compared with what was observed. No function of the script
is called. This is for scripts that are stopped early: if a script came to its end, its steps were
counted.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
from collections import deque
from dataclasses import dataclass, field, replace
from traceback import walk_stack
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.stack_frames import names
from hotloop.observe.loops.code import skeleton
from hotloop.observe.loops.expressions import mangled
from hotloop.observe.loops.other_updates import may_train_elsewhere, updating
from hotloop.observe.loops.stack import levels
from hotloop.observe.loops.values import SIMPLE, Unknown, length, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from hotloop.core.case.case import Case
    from hotloop.observe.loops.code import Skeleton
    from hotloop.observe.loops.stack import Called, Level

__all__ = ["Planned", "in_loop"]

_TRAINER = "/transformers/trainer.py"
_MOST = 10_000_000  # numbers above this are no count of steps
_TURNS = 5_000_000  # iterations of the loops: half a second
_LOOKS = 200  # observations that are compared with the plan
_CODE = {"range": range, "len": len, "min": min, "max": max, "abs": abs, "int": int, "bool": bool}


@dataclass(slots=True)
class Nest:
    """The loops around the updates, as they were observed."""

    functions: tuple[tuple[str, int], ...]  # file and id() of the functions on the stack
    calls: list[list[Called]]  # of each function
    skeleton: Skeleton
    looks: list[tuple[int, dict[str, Any]]] = field(default_factory=list)  # updates, variables
    is_plain: bool = True  # no library between the script and PyTorch's update
    library_steps: int | None = None  # steps of a library's own loop inside
    updating: set[int] = field(default_factory=set)  # id() of calls that may make updates


class Planned(Probe):
    """Reads the loops around the update, some times a second."""

    def __init__(self) -> None:
        linecache.checkcache()  # a script may have been edited between two runs of one process
        self._begin()

    def _begin(self) -> None:
        self._nest: Nest | None = None
        self.why: str | None = None  # why the steps are unknown
        self._left: set[tuple[tuple[str, int], ...]] = set()  # functions of earlier nests
        self._last = 0

    def after_step(self, updates: int) -> None:
        """Read the loops around the running line, the outermost first."""
        if updates <= self._last:  # the count started again
            self._begin()
        self._last = updates
        if self.why is not None:
            return
        try:
            library_steps = _trainer_steps(sys._getframe(1))
            stack, is_plain = levels(sys._getframe(1), has_library_length=library_steps is not None)
            self._see(updates, stack, is_plain, library_steps)
        except Unknown as why:
            self.why = str(why)

    def _see(
        self, updates: int, stack: Sequence[Level], is_plain: bool, library_steps: int | None
    ) -> None:
        functions = tuple((level.file, id(level.function)) for level in stack)
        nest = self._nest
        if nest is None or nest.functions != functions:
            if nest is not None:
                self._left.add(nest.functions)
            if functions in self._left:
                raise Unknown("updates take turns")
            first = [[level.at] for level in stack]
            loops = skeleton(stack, first)
            nest = self._nest = Nest(functions, first, loops, library_steps=library_steps)
            repeated = False
            for level in stack:
                nest.updating |= {id(call) for call in updating(level, is_repeated=repeated)}
                repeated = repeated or level.at.is_in_a_loop
        levels_calls = zip(nest.calls, stack, strict=True)
        new = [(calls, level.at) for calls, level in levels_calls if level.at not in calls]
        for calls, called in new:
            calls.append(called)
        if new:
            nest.skeleton = skeleton(stack, nest.calls)
        for depth, node, value in nest.skeleton.constants:
            if _value(node, stack[depth]) != value:
                raise Unknown("what was taken for a constant changes")
        nest.is_plain = nest.is_plain and is_plain
        values = {mangled(*name): stack[name[0]].names.get(name[1]) for name in nest.skeleton.names}
        if len(nest.looks) < _LOOKS:
            simple = {name: value for name, value in values.items() if type(value) in SIMPLE}
            nest.looks.append((updates, simple))

    def expected(self, most: int) -> int | None:
        """Return how many updates the loops make that run now, if it is known and below `most`."""
        nest = self._nest
        if nest is None or self.why is not None:
            return None
        if nest.library_steps is not None:
            return nest.library_steps if nest.library_steps < most else None

        def see(last: int, _: Mapping[str, Any]) -> None:
            if last >= most:
                raise Unknown("more than matters")

        try:
            return _run(nest.skeleton, see)
        except Unknown:
            return None

    def add_to(self, case: Case) -> Case:
        """Add the planned steps of a run that was stopped, where they are known."""
        if case.stopped is None or case.planned_steps is not None or not case.steps.count:
            return case
        try:
            planned = self._counted(case)
        except Unknown as why:
            self.why = str(why)
            return case
        return case if planned < case.steps.count else replace(case, planned_steps=planned)

    def _counted(self, case: Case) -> int:
        """Return the steps that the loops make. Raises Unknown."""
        nest = self._nest
        if nest is None or self.why is not None:
            raise Unknown(self.why or "no loop was seen")
        files = [file for file, _ in nest.functions]
        unseen = nest.updating - {id(called.call) for calls in nest.calls for called in calls}
        if unseen or may_train_elsewhere(case.sources, files, nest.calls):
            raise Unknown("other updates may come")
        if nest.library_steps is not None:
            if _run(nest.skeleton, lambda _, __: None) != 1:
                raise Unknown("it trains again and again")
            return nest.library_steps
        if not nest.is_plain and (case.steps.backwards or 1.0) != 1.0:
            raise Unknown("a library decides whether it updates")
        updates = _all_updates(nest, is_first=not self._left)
        made = sum(optimizer.steps for optimizer in case.optimizers) or case.steps.count
        per_step, rest = divmod(made, case.steps.count)  # the last step may be cut short
        if rest >= per_step or updates % per_step:
            raise Unknown("updates a step differ")
        return updates // per_step


def _value(node: ast.expr, level: Level) -> Any:
    if isinstance(node, ast.Call):  # len(...)
        return length(value_of(node.args[0], level.names))
    return value_of(node, level.names)


def in_loop() -> bool:
    """Whether the running line is inside a loop of the project's own code; True if unknown."""
    try:
        stack, _ = levels(sys._getframe(1), has_library_length=True)
    except Unknown:
        return True
    return any(level.at.is_in_a_loop for level in stack)


def _trainer_steps(frame: FrameType) -> int | None:
    """Return the steps that transformers' Trainer will make; None if none is on the stack."""
    for outer, _ in walk_stack(frame):
        if outer.f_code.co_filename.replace(os.sep, "/").endswith(_TRAINER):
            state = getattr(names(outer).get("self"), "__dict__", {}).get("state")
            steps = getattr(state, "__dict__", {}).get("max_steps")
            if isinstance(steps, int) and 0 < steps <= _MOST:
                return steps
    return None


def _all_updates(nest: Nest, *, is_first: bool) -> int:
    """Return the number of updates at the end of the loops.

    Raises Unknown where the variables differ from an observation.
    """
    (updates, state), *_ = nest.looks
    before = 0 if is_first and updates == 1 else updates - _place(nest, state)
    waiting = deque((updates - before, state) for updates, state in nest.looks)

    def check(last: int, values: Mapping[str, Any]) -> None:
        while waiting and waiting[0][0] <= last:
            if not _agree(waiting.popleft()[1], values):
                raise Unknown("it goes otherwise")

    return before + _run(nest.skeleton, check)


def _place(nest: Nest, state: Mapping[str, Any]) -> int:
    """Return the update of the loops at which the first observation was made."""
    matches: list[int] = []

    def compare(last: int, values: Mapping[str, Any]) -> None:
        if _agree(state, values):
            matches.append(last)
        if len(matches) > 1:
            raise Unknown("the first look may be at several updates")

    _run(nest.skeleton, compare)
    if not state or not matches:
        raise Unknown("the first look is at none of the updates")
    return matches[0]


def _agree(state: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    return all(values.get(name) == value for name, value in state.items())


def _run(loops: Skeleton, see: Callable[[int, Mapping[str, Any]], None]) -> int:
    """Execute the reduced loops and return their updates; `see` gets the count and variables."""
    turns = updates = 0

    def tick() -> None:
        nonlocal turns
        turns += 1
        if turns > _TURNS:
            raise Unknown("the loops go on for too long")

    def update(number: int) -> None:
        nonlocal updates
        updates += number
        see(updates, values)

    values: dict[str, Any] = {"__builtins__": _CODE, "tick": tick, "update": update}
    try:
        exec(loops.code, values)
    except (TypeError, ValueError, ArithmeticError, NameError) as why:
        raise Unknown(str(why)) from None
    return updates
