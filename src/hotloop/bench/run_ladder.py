"""Climbs a ladder: each rung is raced with the lowest, never two trials at work at once."""

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
from hotloop.bench.trial_listener import CardWatch, Heard
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
from hotloop.tuning.interleaved_timing import Entry, race
from hotloop.tuning.moves import promise

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from hotloop.core.plan import Plan
    from hotloop.core.trial import Trial
    from hotloop.jobs.job import PreparedRun
    from hotloop.recipes.building.ladder import Ladder, Rung
    from hotloop.tuning.interleaved_timing import RaceLength

__all__ = ["Climb"]

_MODULES: Final = {"engine": recipe_trial.__name__, "plain loop": f"{__package__}.plain_loop"}
_SHARE: Final = 0.4  # of the free memory that one of two trials may take
_STATES: Final[dict[str, State]] = {"refused": "refused", "not needed here": "not needed here"}


@dataclass(slots=True)
class _Done:
    """A rung that was measured, as far as later ones need it."""

    trial: Trial
    heard: Heard
    setting: _Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """The recipe with the settings of some rungs."""

    key: str  # what is other than asked for
    parts: PreparedRun
    record: dict[str, object]  # of its request
    work: Work


class Climb:
    """Measures rungs one after the other; what is finished stays when it is interrupted."""

    def __init__(
        self,
        ladder: Ladder,
        parts: PreparedRun,
        *,
        pace: RaceLength,
        folder: Path,
        command: Sequence[str],
        ceilings: Ceilings | None = None,
        hear: Callable[..., Heard] = Heard,
        racer: Callable[..., list[Trial]] = race,
        busy_cores: float | None = None,
        tell: Callable[[str], None] = lambda _: None,
        keep: Callable[[Result], None] = lambda _: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`folder` takes what an epoch needs; `keep` is given the result after each rung.

        `ceilings`, `hear`, `racer` and `clock` are seams.
        """
        self._hear, self._racer = hear, racer
        self._ladder, self._parts, self._pace = ladder, parts, pace
        self._folder, self._command, self._busy = folder, command, busy_cores
        self._tell, self._keep, self._clock = tell, keep, clock
        self._spot = Spot(config=parts.request.config, hardware=parts.hardware, own=parts.plan)
        threads = int((parts.plan.choice("threads") or {}).get("count", 0)) or None
        self._ceilings = ceilings or Ceilings(parts.hardware, threads=threads)
        self._settings: dict[str, _Setting] = {}
        self._why_no_card: str | None = None
        self._before = ladder.before.change(parts.plan, self._spot)
        self._done: dict[str, _Done] = {}
        self._references: dict[str, Trial] = {}  # by settings: whose losses the others must keep
        self._rows: list[RungResult] = []
        self._stopped: str | None = None
        self._judged = ladder.judged

    def climb(self, only: Collection[str] = (), *, epochs: bool = True) -> Result:
        """Measure the rungs (those of `only`, and the lowest), then two epochs for real.

        Ctrl-C ends it early; the result then says so.
        """
        wanted = [r for r in self._ladder.rungs if not only or r.id in only]
        if self._judged not in {rung.id for rung in wanted}:
            self._judged = wanted[-1].id
        if self._ladder.before not in wanted:
            wanted.insert(0, self._ladder.before)
        try:
            self._measure(wanted)
            if epochs:
                self._make_epochs()
        except KeyboardInterrupt:
            self._stopped = f"stopped by Ctrl-C; {len(self._done)} rungs were measured"
        return self._result()

    def _measure(self, wanted: Sequence[Rung]) -> None:
        """Add the rows of the rungs that are wanted; the others are stood on all the same."""
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
                at = wanted.index(rung)
                left = (self._clock() - began) / at * (len(wanted) - at) if at else None
                where = f"rung {at + 1} of {len(wanted)}"
                row = self._race(rung, plan, rung.needs(below, plan), where, left)
                row = row if rung.is_top else self._on(row, on)
                self._add(row)
                if not row.is_measured and rung is self._ladder.before:
                    self._stopped = f"the lowest rung could not be measured: {row.why}"
                    return
                if not row.is_measured:
                    continue  # the next one stands on what works
            if not rung.is_top:
                below, on = plan, row

    def _on(self, row: RungResult, below: RungResult | None) -> RungResult:
        """Return the row with how many times as fast it is as the one below, if both are known."""
        if below is None or below.comparison is None or row.comparison is None:
            return row
        is_lowest = below.id == self._ladder.before.id
        theirs, mine = 1.0 if is_lowest else below.comparison.ratio, row.comparison.ratio
        over = theirs / mine if theirs and mine else None
        return replace(row, below=below.name, over_below=over)

    def _race(
        self, rung: Rung, plan: Plan, needs: tuple[str, ...], where: str, left: float | None
    ) -> RungResult:
        """Return the row of a rung, raced with the lowest one."""
        lowest, began = self._ladder.before, self._clock()
        until = "" if left is None else f"; about {duration(max(left, 10.0))} left"
        heard: list[Heard] = []
        assert not isinstance(self._before, str)
        try:
            base_setting, setting = self._setting(lowest), self._setting(rung)
        except HotloopError as error:
            return _row(rung, "failed", str(error), plan=plan)
        entries = [
            self._entry(lowest, base_setting, self._before, heard),
            self._entry(rung, setting, plan, heard, needs=needs),
        ]

        def tell(what: str) -> None:
            self._tell(f"{where}, {rung.name}: {what}{until}")

        tell("starting")
        base, trial = self._racer(entries, self._pace, tell=tell)
        seconds = self._clock() - began
        row = _row(rung, "failed", f"{trial.outcome}: {trial.reason}", plan=plan, seconds=seconds)
        if not base.is_ok:
            return replace(row, why=f"the lowest rung {base.outcome}: {base.reason}")
        if not trial.is_ok:
            state = _STATES.get(trial.outcome)
            return replace(row, state=state, why=trial.reason) if state else row
        self._done[rung.id] = done = _Done(trial, heard[-1], setting)
        return self._told(row, rung, done, _at_work(base, base_setting.work, setting.work))

    def _setting(self, rung: Rung) -> _Setting:
        """Return the recipe as the rung has it; raises HotloopError where it cannot be had."""
        request, changes = self._parts.request, dict(rung.settings(self._spot.config))
        flat = flatten(request.config)
        changes = {key: value for key, value in changes.items() if flat[key] != value}
        key = str(sorted(changes.items()))
        if key not in self._settings:
            parts = self._parts
            if changes:
                schema = request.recipe.resolve.schema
                config = rebuild(schema, {**flat, **changes}, origin=f"rung {rung.id}")
                request = replace(request, config=config)
                parts = assemble(request, lambda _: None, lambda: None, plan=parts.plan)
            self._settings[key] = _Setting(
                key=key,
                parts=parts,
                record=recipe_trial.record_of(request),
                work=work_of(parts.job),
            )
        return self._settings[key]

    def _told(self, row: RungResult, rung: Rung, done: _Done, base: Trial) -> RungResult:
        """Fill in what was measured."""
        trial, heard, setting = done.trial, done.heard, done.setting
        found = figures(
            setting.parts, setting.work, trial, heard, self._ceilings, self._why_no_card
        )
        if found.impossible is not None:
            return replace(row, state="impossible", why=found.impossible, effects=trial.effects)
        values = dict(found.values)
        if (whole := forecast_epoch(setting.parts, trial, heard.said)) is not None:
            values["epoch_s"] = whole.seconds
        same = None
        reference = self._references.get(setting.key)
        if rung.program == "engine" and reference is None:
            self._references[setting.key] = trial
        elif rung.program == "engine" and reference is not None:
            wanted = promise(trial.plan, reference.plan)
            same = agree(reference.evidence, trial.evidence, wanted)
        return replace(
            row,
            state="measured",
            why=None,
            step=trial.step_time,
            comparison=compare(trial, base),
            figures=values,
            unknown=found.unknown,
            effects=trial.effects,
            parity=same,
        )

    def _entry(
        self,
        rung: Rung,
        setting: _Setting,
        plan: Plan,
        heard: list[Heard],
        *,
        needs: tuple[str, ...] = (),
    ) -> Entry:
        def start() -> Heard:
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
            heard.append(self._hear(command, watch=self._watch(), memory=free))
            return heard[-1]

        return Entry(plan=plan, start=start, needs=needs)

    def _watch(self) -> CardWatch | None:
        if self._parts.hardware.device != "cuda":
            return None
        import torch

        uuid = str(torch.cuda.get_device_properties("cuda").uuid)
        made = CardWatch.of(uuid)
        if isinstance(made, str):
            self._why_no_card = made
            return None
        return made

    def _make_epochs(self) -> None:
        """Make a small epoch under the lowest and the last rung that `hotloop train` can run."""
        mine = [r.id for r in self._ladder.rungs if r.program == "engine" and r.id in self._done]
        for id in dict.fromkeys(mine[:1] + mine[-1:]):
            at = next(n for n, row in enumerate(self._rows) if row.id == id)
            if not self._rows[at].is_measured:
                continue
            self._tell(f"an epoch for real, {self._rows[at].name}")
            done = self._done[id]
            made = make_epoch(done.setting.parts, done.trial, done.heard.said, self._folder)
            self._rows[at] = replace(self._rows[at], epoch=made)
            self._keep(self._result())

    def _add(self, row: RungResult) -> None:
        self._rows.append(row)
        self._keep(self._result())

    def _result(self) -> Result:
        import torch

        parts: Any = self._parts
        threads = f"{torch.get_num_threads()} where a plan says nothing else"
        return Result(
            ladder=self._ladder.recipe,
            command=self._command,
            date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            hardware=replace(parts.hardware, measured=dict(self._ceilings.measured)),
            settings=flatten(parts.request.config),
            facts={**parts.facts(), "threads": threads},
            rows=tuple(self._rows),
            judged=self._judged,
            flops_per_token=parts.flops_per_token,
            busy_cores=self._busy,
            stopped=self._stopped,
        )


def _at_work(trial: Trial, its: Work, wanted: Work) -> Trial:
    """Return a trial as if its steps had other tokens: packed rows hold more than others do."""
    more = wanted.tokens / its.tokens
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
