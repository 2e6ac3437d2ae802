"""Runs hotloop tune: the baseline, the doctor, the search, the proof, and saving the result."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hotloop.core import codec
from hotloop.core.package import __version__
from hotloop.core.storage.rundir import RunDir
from hotloop.core.tuning_result import FixedCost, Tuned
from hotloop.core.units import duration
from hotloop.machine.identity import identity
from hotloop.machine.threads import load, others
from hotloop.tuning.expected_gain import best_refused
from hotloop.tuning.script_target import DoctorFacts, Script, costs, edits, moves
from hotloop.tuning.search import Search

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hotloop.core.trial import Trial
    from hotloop.core.tuning_result import TuneRow
    from hotloop.machine.threads import Load
    from hotloop.tuning.interleaved_timing import RaceLength
    from hotloop.tuning.moves import Move
    from hotloop.tuning.search import TuningTarget

__all__ = ["TuneRequest", "tune"]

_LOOK: Final = 0.15  # share of the budget that the doctor may take
_BUSY: Final = 0.3  # cores used by other programs from which a note warns
_LOOKS: Final = (10.0, 60.0)  # seconds of the doctor, at least and at most


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """The options of a search."""

    seconds: float = 600.0  # of the search; the last proof may take longer
    allow_training: bool = False
    pace: RaceLength | None = None


def tune(
    target: TuningTarget,
    folder: Path,
    request: TuneRequest,
    *,
    name: Sequence[str],
    propose: Callable[[Trial], Sequence[Move]] | None = None,
    notes: Sequence[str] = (),
    notify: Callable[[str], None] = lambda _: None,
    row: Callable[[TuneRow], None] = lambda _: None,
    look: Callable[[], Load] = lambda: load(children=True),
) -> Tuned:
    """Search for a faster plan of a target and write the result into `folder`.

    `propose` returns the moves of a target that is not a script, from the trial of its baseline.
    `notes` are added to those of the result. `notify` gets a description of each action, `row` each
    new row. Ctrl-C keeps the rows so far. A plan that was not proved is saved without the identity
    of this machine. `look` is a seam. Raises UsageError if the folder is used, DataError if the
    target cannot run as it is.
    """
    began, before = time.perf_counter(), look()
    home, where = RunDir(folder), identity()
    record = {"kind": "tune", "status": "running", "target": list(name), "hotloop": __version__}
    with home.tuning(record) as journal:

        def keep(new_row: TuneRow) -> None:
            journal.append([json.dumps(codec.to_json(new_row))])
            row(new_row)

        search = Search(
            target, seconds=request.seconds, notify=notify, keep=keep, pace=request.pace
        )
        work = _Work(target, home, request, search, notify)
        stopped = None
        try:
            work.do(propose)
        except KeyboardInterrupt:
            stopped = f"stopped after {duration(time.perf_counter() - began)}"
        result = Tuned(
            target=tuple(name),
            where=where,
            baseline=target.baseline,
            plan=search.plan,
            rows=tuple(search.rows),
            proof=search.proof,
            edits=() if work.seen is None else tuple(edits(work.seen, search.plan)),
            costs=tuple(_costs(search, work.seen)),
            seconds=time.perf_counter() - began,
            stopped=stopped or _budget_note(search.rows),
            notes=tuple(
                note
                for note in (*notes, work.unseen, work.refused, _busy_note(before, look()))
                if note
            ),
        )
        measured = where if result.is_proved else None
        status = "complete" if stopped is None else "stopped"
        home.save_tuned(result.to_json(), result.plan, measured, status=status)
    return result


@dataclass(slots=True)
class _Work:
    """Runs the phases of a search; keeps the facts of the doctor for the result."""

    target: TuningTarget
    home: RunDir
    request: TuneRequest
    search: Search
    notify: Callable[[str], None]
    seen: DoctorFacts | None = None
    unseen: str | None = None  # why the doctor saw nothing, or not all

    @property
    def refused(self) -> str | None:
        """What was not tried for want of leave, and what it promises."""
        if self.seen is None or self.request.allow_training:
            return None
        return best_refused(self.seen.case)

    def do(self, propose: Callable[[Trial], Sequence[Move]] | None) -> None:
        """Measure the baseline, run the doctor, search, prove the result."""
        self.notify("as it is")
        self.search.measure_baseline()
        proposed = self._moves(propose)
        total = self.target.total if self.seen is None else self.seen.case.total_steps
        self.search.try_all(proposed, total=total)
        self.notify("the proof: the result against what it was")
        self.search.prove()

    def _moves(self, propose: Callable[[Trial], Sequence[Move]] | None) -> Sequence[Move]:
        target = self.target
        if propose is not None:
            return propose(self.search.base)
        assert isinstance(target, Script)
        self.notify("the doctor looks at it")
        least, most = _LOOKS
        look = min(most, max(least, _LOOK * self.request.seconds))
        facts = target.look(self.home.looked, seconds=look)
        if isinstance(facts, str):
            self.unseen = facts
        else:
            self.seen, self.unseen = facts, facts.failed
        allow = self.request.allow_training
        return moves(target.hardware, self.seen, allow_training=allow)


def _costs(search: Search, seen: DoctorFacts | None) -> list[FixedCost]:
    """Return the fixed costs of the baseline and of the proved plan."""
    if not search.rows:
        return []
    before, after = search.rows[0], search.proof
    if after is not None and after.decision != "proved":
        after = None
    fixed_costs = [
        FixedCost(what=what, before=seconds, after=getattr(after, name, None), note=note)
        for what, name, note in (
            ("start", "started", "until the first step is over: imports, model, compiling"),
            ("compiling", "compiled", "a part of the start"),
            ("warm-up", "warm_up", "of the first steps, above their share: first epoch"),
        )
        if (seconds := getattr(before, name)) is not None
    ]
    notes = {"validation": "one micro batch", "save": "until the loop goes on"}
    fixed_costs += [
        FixedCost(what=what, before=seconds, note=notes[what])
        for what, seconds in search.aside.items()
    ]
    return [*fixed_costs, *(costs(seen) if seen is not None else ())]


def _busy_note(before: Load, after: Load) -> str | None:
    """Return a warning if other programs computed during the search, or None."""
    cores = others(before, after)
    if cores < _BUSY:
        return None
    return (
        f"other programs used {cores:.1f} cores meanwhile: what was found holds for a machine that "
        "is as busy; threads and loader processes pay differently on a quiet one"
    )


def _budget_note(rows: Sequence[TuneRow]) -> str | None:
    left = [row.name for row in rows if row.decision == "not tried"]
    return f"the budget was used up before {', '.join(left)}" if left else None
