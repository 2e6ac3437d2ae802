"""Runs hotloop tune: the doctor, the baseline, the search, the proof, and saving the result."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from hotloop.core import codec
from hotloop.core.case.experiment import BUDGET
from hotloop.core.package import __version__
from hotloop.core.proved_run import data_identity, run_identity
from hotloop.core.storage.rundir import RunDir
from hotloop.core.tuning_result import FixedCost, Tuned
from hotloop.core.units import duration
from hotloop.machine.identity import identity
from hotloop.machine.threads import load, others
from hotloop.techniques.base import Numerics
from hotloop.tuning.expected_gain import best_refused
from hotloop.tuning.script_target import (
    DoctorFacts,
    Script,
    costs,
    edits,
    epoch_seconds,
    moves,
)
from hotloop.tuning.search import Search
from hotloop.tuning.whole_run import RUNS, estimated, expected_seconds, measured

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hotloop.core.case.case import Case
    from hotloop.core.trial import Trial
    from hotloop.core.tuning_result import TuneRow, WholeRun
    from hotloop.machine.threads import Load
    from hotloop.tuning.lane import RaceLength
    from hotloop.tuning.moves import Move
    from hotloop.tuning.races import TuningTarget

__all__ = ["TuneRequest", "tune"]

_WHOLE: Final = 0.4  # share of the budget that whole runs may take
_BUSY: Final = 0.3  # cores used by other programs from which a note warns
# The doctor's shares of the budget, with their seconds at least and at most: to observe, and to try
# other forms. The latter takes up to four times its share where steps are slow.
_LOOKS: Final = ((0.08, 3.0, 60.0), (0.04, 2.0, BUDGET))


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """The options of a search."""

    seconds: float = 600.0  # of the search; the last proof may take longer
    most: Numerics = Numerics.ROUNDING  # how far a plan may change the numbers
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
    clock: Callable[[], float] = time.perf_counter,
) -> Tuned:
    """Search for a faster plan of a target and write the result into `folder`.

    `propose` returns the moves of a target that is not a script, from the trial of its baseline.
    `notes` are added to those of the result. `notify` gets a description of each action, `row` each
    new row. Ctrl-C keeps the rows so far. A plan that was not proved is saved without the identity
    of this machine. `look` and `clock` are seams. Raises UsageError if the folder is used,
    DataError if the target cannot run as it is.
    """
    began, before = time.perf_counter(), look()
    home, where = RunDir(folder), identity()
    record = {"kind": "tune", "status": "running", "target": list(name), "hotloop": __version__}
    with home.tuning(record) as journal, ExitStack() as stack:
        target = stack.enter_context(target.forking())

        def keep(new_row: TuneRow) -> None:
            journal.append([json.dumps(codec.to_json(new_row))])
            row(new_row)

        search = Search(
            target,
            seconds=request.seconds,
            notify=notify,
            keep=keep,
            clock=clock,
            pace=request.pace,
        )
        work = _Work(target, home, request, search, notify)
        stopped = None
        try:
            work.do(propose)
        except KeyboardInterrupt:
            stopped = f"stopped after {duration(time.perf_counter() - began)}"
            search.settle()
        stack.close()  # then what the trials used is known as used by this process
        said = (*notes, *work.notes, _busy_note(before, look()))
        result = work.result(
            target=tuple(name),
            where=where,
            seconds=time.perf_counter() - began,
            stopped=stopped or _budget_note(search.rows),
            notes=tuple(note for note in said if note),
        )
        proof = {"measured": where, **work.run} if result.is_proved else {}
        status = "complete" if stopped is None else "stopped"
        home.save_tuned(result.to_json(), result.plan, proof, status=status)
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
    notes: list[str | None] = field(default_factory=list)
    whole: WholeRun | None = None
    times_whole_runs: bool = False
    phases: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the seconds of a phase, also of one that ends with an error."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = time.perf_counter() - began

    def do(self, propose: Callable[[Trial], Sequence[Move]] | None) -> None:
        """Run the doctor, measure the baseline, search, prove the result, time the whole run."""
        search = self.search
        if propose is None:
            with self.phase("the doctor"):
                proposed = self._seen_moves()
            case = None if self.seen is None else self.seen.case
            self.notify("as it is, beside what the doctor expects most of")
            with self.phase("the script as it is"):
                search.measure_baseline(
                    proposed,
                    total=None if case is None else case.total_steps,
                    epoch=None if case is None else epoch_seconds(case),
                )
        else:
            self.notify("as it is")
            with self.phase("the recipe as it is"):
                search.measure_baseline(total=self.target.total)
            proposed = propose(search.base)
        with self.phase("techniques"):
            search.try_all(proposed)
        self.notify("the proof: the result against what it was")
        with self.phase("the proof"):
            search.prove()
        if self.seen is not None and search.proof is not None and search.plan.techniques:
            with self.phase("whole runs"):
                self._time_whole_runs(self.seen.case, search.proof)

    def result(self, **more: Any) -> Tuned:
        """Return what was found; `more` are fields that the phases do not know."""
        search, seen = self.search, self.seen
        return Tuned(
            baseline=self.target.baseline,
            plan=search.plan,
            rows=tuple(search.rows),
            proof=search.proof,
            whole=self.whole,
            phases=self.phases,
            edits=() if seen is None else tuple(edits(seen, search.plan)),
            costs=tuple(_costs(search, seen)),
            **more,
        )

    @property
    def run(self) -> Mapping[str, Mapping[str, str]]:
        """The run that a plan is proved for, as a part of its file."""
        script = self.target
        if not isinstance(script, Script):
            return {}
        loaders = () if self.seen is None else self.seen.case.training_loaders
        data = data_identity((loader.dataset, loader.length) for loader in loaders)
        return {"proved_for": {**run_identity(script.command, script.cwd), "data": data}}

    def _seen_moves(self) -> Sequence[Move]:
        """Return the moves of a script, those first of which the doctor expects most."""
        target = self.target
        assert isinstance(target, Script)
        self.notify("the doctor looks at it")
        observed, experiments = (
            min(most, max(least, share * self.request.seconds)) for share, least, most in _LOOKS
        )
        facts = target.look(self.home.looked, seconds=observed, experiments=experiments)
        if isinstance(facts, str):
            self.notes.append(facts)
        else:
            self.seen = facts
            self.notes.append(facts.failed)
            self._reserve(expected_seconds(facts.case))
        most = self.request.most
        if self.seen is not None:
            self.notes.append(best_refused(self.seen.case, most))
        return moves(target.hardware, self.seen, most=most)

    def _reserve(self, whole: float | None) -> None:
        """Keep time for whole runs of a script of seconds, which are what its user waits for."""
        seconds = None if whole is None else RUNS * whole
        if seconds is not None and seconds <= _WHOLE * self.request.seconds:
            self.times_whole_runs = True
            self.search.reserve(seconds)

    def _time_whole_runs(self, case: Case, proof: TuneRow) -> None:
        """Say what the plan gains in the whole run; give up one that gains nothing there."""
        search = self.search
        self.whole = estimated(case, search.rows[0], proof)
        if not self.times_whole_runs:
            return
        assert isinstance(self.target, Script)
        found = measured(self.target, search.plan, steps=case.total_steps, notify=self.notify)
        if isinstance(found, str):
            self.notes.append(f"the time of the whole run is an estimate: {found}")
            return
        self.whole = found
        if found.factor <= 1.0:
            search.give_up(f"it gains nothing in the end: {found.said}")


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
            ("compiling", "compiled", "a part of the start, with what the compiler's cache held"),
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
