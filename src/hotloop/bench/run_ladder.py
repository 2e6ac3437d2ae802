"""Climbs a ladder: races each rung against the lowest one; only one trial runs at any time."""

from __future__ import annotations

import datetime
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import psutil

from hotloop.bench.matmul_ceiling import Ceilings
from hotloop.bench.rates import figures, forecast_epoch
from hotloop.bench.result import Result, RungResult, State
from hotloop.bench.tokens_per_sample import Work, work_of
from hotloop.bench.trial_listener import GpuWatch, TrialListener
from hotloop.bench.whole_run import make_epoch
from hotloop.config.schema import flatten
from hotloop.config.settings import rebuild
from hotloop.core.agreement import agree
from hotloop.core.errors import HotloopError
from hotloop.core.trial import compare
from hotloop.core.units import duration
from hotloop.jobs.job import assemble
from hotloop.recipes.building.ladder import Spot
from hotloop.tuning import recipe_trial
from hotloop.tuning.interleaved_timing import race
from hotloop.tuning.lane import Entry
from hotloop.tuning.moves import promise

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from hotloop.core.plan import Plan
    from hotloop.core.trial import Trial
    from hotloop.jobs.job import PreparedRun
    from hotloop.recipes.building.ladder import Ladder, Rung
    from hotloop.tuning.lane import RaceLength

__all__ = ["Climb"]

_MODULES: Final = {"engine": recipe_trial.__name__, "plain loop": f"{__package__}.plain_loop"}
_SHARE: Final = 0.4  # of the free memory that one of two trials may take
_STATES: Final[dict[str, State]] = {"refused": "refused", "not needed here": "not needed here"}


@dataclass(slots=True)
class _Done:
    """The data of a measured rung that later rungs need."""

    trial: Trial
    listener: TrialListener
    setting: _Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """The recipe with the settings that some rungs share."""

    key: str  # the settings that differ from the request
    prepared: PreparedRun
    record: dict[str, object]  # of its request
    work: Work


class Climb:
    """Measures one rung after the other; an interrupt keeps the finished ones."""

    def __init__(
        self,
        ladder: Ladder,
        prepared: PreparedRun,
        *,
        pace: RaceLength,
        folder: Path,
        command: Sequence[str],
        ceilings: Ceilings | None = None,
        listen: Callable[..., TrialListener] = TrialListener,
        racer: Callable[..., list[Trial]] = race,
        busy_cores: float | None = None,
        notify: Callable[[str], None] = lambda _: None,
        keep: Callable[[Result], None] = lambda _: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Prepare a climb; `folder` holds the files of epochs, `keep` gets each interim result.

        `ceilings`, `listen`, `racer` and `clock` are seams.
        """
        self._listen, self._racer = listen, racer
        self._ladder, self._prepared, self._pace = ladder, prepared, pace
        self._folder, self._command, self._busy = folder, command, busy_cores
        self._notify, self._keep, self._clock = notify, keep, clock
        config, hardware = prepared.request.config, prepared.hardware
        self._spot = Spot(config=config, hardware=hardware, own=prepared.plan)
        threads = int((prepared.plan.choice("threads") or {}).get("count", 0)) or None
        self._ceilings = ceilings or Ceilings(prepared.hardware, threads=threads)
        self._settings: dict[str, _Setting] = {}
        self._why_no_gpu: str | None = None
        self._before = ladder.before.change(prepared.plan, self._spot)
        self._done: dict[str, _Done] = {}
        self._references: dict[str, Trial] = {}  # by settings: trial with the reference losses
        self._rows: list[RungResult] = []
        self._stopped: str | None = None
        self._judged = ladder.judged

    def climb(self, only: Collection[str] = (), *, epochs: bool = True) -> Result:
        """Measure the rungs, or the lowest and those of `only`, then run two epochs.

        Ctrl-C ends the climb early; the result then says so.
        """
        rungs = [r for r in self._ladder.rungs if not only or r.id in only]
        if self._judged not in {rung.id for rung in rungs}:
            self._judged = rungs[-1].id
        if self._ladder.before not in rungs:
            rungs.insert(0, self._ladder.before)
        try:
            self._measure(rungs)
            if epochs:
                self._make_epochs()
        except KeyboardInterrupt:
            self._stopped = f"stopped by Ctrl-C; {len(self._done)} rungs were measured"
        return self._result()

    def _measure(self, wanted: Sequence[Rung]) -> None:
        """Add the rows of the wanted rungs; unwanted rungs only change the plan of later ones."""
        below, on, began = self._before, None, self._clock()
        assert not isinstance(below, str), below
        for rung in self._ladder.rungs:
            plan = rung.change(below, self._spot)
            row: RungResult | None = None
            if isinstance(plan, str):
                if rung in wanted:
                    self._add(_row(rung, "blocked", plan))
                continue
            if rung in wanted:
                index = wanted.index(rung)
                spent, more = self._clock() - began, len(wanted) - index
                left = spent / index * more if index else None
                where = f"rung {index + 1} of {len(wanted)}"
                row = self._race(rung, plan, rung.needs(below, plan), where, left)
                row = row if rung.is_top else self._compared_with_below(row, on)
                self._add(row)
                if not row.is_measured and rung is self._ladder.before:
                    self._stopped = f"the lowest rung could not be measured: {row.why}"
                    return
                if not row.is_measured:
                    continue  # the next rung builds on the last one that works
            if not rung.is_top:
                below, on = plan, row

    def _compared_with_below(self, row: RungResult, below: RungResult | None) -> RungResult:
        """Return the row with its speed relative to the rung below, if both are known."""
        if below is None or below.comparison is None or row.comparison is None:
            return row
        is_lowest = below.id == self._ladder.before.id
        theirs, mine = 1.0 if is_lowest else below.comparison.ratio, row.comparison.ratio
        over = theirs / mine if theirs and mine else None
        return replace(row, below=below.name, over_below=over)

    def _race(
        self, rung: Rung, plan: Plan, needs: tuple[str, ...], where: str, left: float | None
    ) -> RungResult:
        """Return the row of a rung after a race against the lowest one."""
        lowest, began = self._ladder.before, self._clock()
        until = "" if left is None else f"; about {duration(max(left, 10.0))} left"
        listeners: list[TrialListener] = []
        assert not isinstance(self._before, str)
        try:
            base_setting, setting = self._setting(lowest), self._setting(rung)
        except HotloopError as error:
            return _row(rung, "failed", str(error), plan=plan)
        entries = [
            self._entry(lowest, base_setting, self._before, listeners),
            self._entry(rung, setting, plan, listeners, needs=needs),
        ]

        def notify(what: str) -> None:
            self._notify(f"{where}, {rung.name}: {what}{until}")

        notify("starting")
        base, trial = self._racer(entries, self._pace, notify=notify)
        seconds = self._clock() - began
        row = _row(rung, "failed", f"{trial.outcome}: {trial.reason}", plan=plan, seconds=seconds)
        if not base.is_ok:
            return replace(row, why=f"the lowest rung {base.outcome}: {base.reason}")
        if not trial.is_ok:
            state = _STATES.get(trial.outcome)
            return replace(row, state=state, why=trial.reason) if state else row
        self._done[rung.id] = done = _Done(trial, listeners[-1], setting)
        scaled = _scaled_to_work(base, base_setting.work, setting.work)
        return self._measured(row, rung, done, scaled)

    def _setting(self, rung: Rung) -> _Setting:
        """Return the recipe with the settings of a rung; raises HotloopError if that fails."""
        request, changes = self._prepared.request, dict(rung.settings(self._spot.config))
        flat = flatten(request.config)
        changes = {key: value for key, value in changes.items() if flat[key] != value}
        key = str(sorted(changes.items()))
        if key not in self._settings:
            prepared = self._prepared
            if changes:
                schema = request.recipe.resolve.schema
                config = rebuild(schema, {**flat, **changes}, origin=f"rung {rung.id}")
                request = replace(request, config=config)
                prepared = assemble(request, lambda _: None, lambda: None, plan=prepared.plan)
            record, work = recipe_trial.record_of(request), work_of(prepared.job)
            self._settings[key] = _Setting(key=key, prepared=prepared, record=record, work=work)
        return self._settings[key]

    def _measured(self, row: RungResult, rung: Rung, done: _Done, base: Trial) -> RungResult:
        """Fill in the measured values of a row."""
        trial, listener, setting = done.trial, done.listener, done.setting
        prepared, why_no_gpu = setting.prepared, self._why_no_gpu
        result = figures(prepared, setting.work, trial, listener, self._ceilings, why_no_gpu)
        if result.impossible is not None:
            return replace(row, state="impossible", why=result.impossible, effects=trial.effects)
        values = dict(result.values)
        if (whole := forecast_epoch(prepared, trial, listener.message)) is not None:
            values["epoch_s"] = whole.seconds
        parity = None
        if rung.program == "engine":
            reference = self._references.setdefault(setting.key, trial)
            if reference is not trial:
                limits = promise(trial.plan, reference.plan)
                parity = agree(reference.evidence, trial.evidence, limits)
        return replace(
            row,
            state="measured",
            why=None,
            step=trial.step_time,
            comparison=compare(trial, base),
            figures=values,
            unknown=result.unknown,
            effects=trial.effects,
            parity=parity,
        )

    def _entry(
        self,
        rung: Rung,
        setting: _Setting,
        plan: Plan,
        listeners: list[TrialListener],
        *,
        needs: tuple[str, ...] = (),
    ) -> Entry:
        def start() -> TrialListener:
            def command(channel: int) -> list[str]:
                return recipe_trial.command(
                    channel,
                    plan,
                    setting.record,
                    aside=self._folder,
                    module=_MODULES[rung.program],
                    loop=None if rung.loop is None else asdict(rung.loop),
                )

            free = int(_SHARE * psutil.virtual_memory().available)
            listeners.append(self._listen(command, watch=self._watch(), memory=free))
            return listeners[-1]

        return Entry(plan=plan, start=start, needs=needs)

    def _watch(self) -> GpuWatch | None:
        if self._prepared.hardware.device != "cuda":
            return None
        import torch

        uuid = str(torch.cuda.get_device_properties("cuda").uuid)
        watch = GpuWatch.of(uuid)
        if isinstance(watch, str):
            self._why_no_gpu = watch
            return None
        return watch

    def _make_epochs(self) -> None:
        """Run a small epoch under the first and the last measured rung of the engine."""
        rungs = [r.id for r in self._ladder.rungs if r.program == "engine" and r.id in self._done]
        for id in dict.fromkeys(rungs[:1] + rungs[-1:]):
            index, row = next(pair for pair in enumerate(self._rows) if pair[1].id == id)
            if not row.is_measured:
                continue
            self._notify(f"an epoch for real, {row.name}")
            prepared, trial = self._done[id].setting.prepared, self._done[id].trial
            epoch = make_epoch(prepared, trial, self._done[id].listener.message, self._folder)
            self._rows[index] = replace(row, epoch=epoch)
            self._keep(self._result())

    def _add(self, row: RungResult) -> None:
        self._rows.append(row)
        self._keep(self._result())

    def _result(self) -> Result:
        import torch

        prepared: Any = self._prepared
        threads = f"{torch.get_num_threads()} where a plan says nothing else"
        return Result(
            ladder=self._ladder.recipe,
            command=self._command,
            date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            hardware=replace(prepared.hardware, measured=dict(self._ceilings.measured)),
            settings=flatten(prepared.request.config),
            facts={**prepared.facts(), "threads": threads},
            rows=tuple(self._rows),
            judged=self._judged,
            flops_per_token=prepared.flops_per_token,
            busy_cores=self._busy,
            stopped=self._stopped,
        )


def _scaled_to_work(trial: Trial, own: Work, wanted: Work) -> Trial:
    """Return a trial with its times scaled to the tokens of `wanted`, as packed rows hold more."""
    more = wanted.tokens / own.tokens
    return replace(trial, rounds={round: more * time for round, time in trial.rounds.items()})


def _row(
    rung: Rung, state: State, why: str, *, plan: Plan | None = None, seconds: float = 0.0
) -> RungResult:
    return RungResult(
        id=rung.id,
        name=rung.name,
        state=state,
        why=why,
        plan=plan,
        program=rung.program,
        claims=rung.claims,
        seconds=seconds,
    )
