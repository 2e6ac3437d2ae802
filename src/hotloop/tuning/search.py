"""Searches for a faster plan.

Short trials come first: the candidates race a few at a time beside the best plan so far, and those
that are slower in the first rounds are let go. The fastest is kept; what else looks faster is tried
on top of it, one change after the other. The losses and gradients of each trial are compared with
the baseline's. Finally the result races against the baseline, unless it has done so already.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from hotloop import techniques
from hotloop.core.agreement import rounding
from hotloop.core.errors import DataError
from hotloop.core.trial import EDGE, Trial
from hotloop.core.tuning_result import TuneRow
from hotloop.tuning.decisions import (
    CLEAR,
    NO_EFFECT,
    Judge,
    ran_out,
    ratio_of,
    was_cut,
)
from hotloop.tuning.lane import LATE, OVER, RaceLength
from hotloop.tuning.moves import Move, name_of, pairs
from hotloop.tuning.races import Races, changes_memory, last_until, patient, short

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.core.agreement import Rounding
    from hotloop.core.tuning_result import Decision
    from hotloop.techniques.base import Technique
    from hotloop.tuning.races import TuningTarget

__all__ = ["Search"]

_SEARCHED: Final = 4  # pairs of processes of a move, at most; the proof has PAIRS
_SLOW: Final = frozenset({"compile"})  # the first step takes longer than a trial
_FEW: Final = 3  # moves below which sifting them costs more than it saves
_LEAD: Final = 2  # moves that race beside the two of the baseline, where nothing is promised
_PROMISED: Final = 3  # the same, where something is
_EPOCH: Final = 5.0  # seconds of an epoch that the first race may wait for
_PROOF: Final = 4.0  # races of two that are kept in reserve for the proof


class Search:
    """The state of a search; each method adds rows to it."""

    def __init__(
        self,
        target: TuningTarget,
        *,
        seconds: float,
        notify: Callable[[str], None] = lambda _: None,
        keep: Callable[[TuneRow], None] = lambda _: None,
        clock: Callable[[], float] = time.perf_counter,
        pace: RaceLength | None = None,
        known: Sequence[Technique] = techniques.ALL,
    ) -> None:
        self._target, self._notify, self._keep = target, notify, keep
        self._seconds, self._deadline = seconds, clock() + seconds
        pace = pace or RaceLength(pairs=_SEARCHED)
        pace = replace(pace, deadline=self._deadline, gain=CLEAR)
        self._races = Races(target, pace, clock=clock, notify=notify, known=known)
        self._judge = Judge(
            known=known, without_dropout=self._races.without_dropout, nudged=self._races.nudged
        )
        self.rows: list[TuneRow] = []
        self.plan = target.baseline
        self.proof: TuneRow | None = None
        self.aside: Mapping[str, float] = {}  # seconds timed besides the baseline's steps
        self._hopeless: set[str] = set()  # ids of techniques without effect here
        self._kept: list[str] = []  # ids of techniques that made the plan faster
        self._raced: set[str] = set()  # names of moves
        self._promising: list[tuple[float, Move]] = []  # by the ratio of their step times
        self._unsure: list[tuple[float, Move]] = []

    @property
    def base(self) -> Trial:
        """The baseline's trial, after `measure_baseline`."""
        assert self._judge.base is not None
        return self._judge.base

    def measure_baseline(
        self,
        lead: Sequence[Move] = (),
        *,
        total: int | None = None,
        epoch: float | None = None,
    ) -> None:
        """Race the baseline against itself for its noise; raise DataError if it cannot run.

        The best of `lead`, which are moves of `try_all`, race beside it. `total` are the steps that
        the target makes in all and `epoch` the seconds of an epoch, if known.
        """
        races, plan, began = self._races, self._target.baseline, self._races.clock()
        self._judge.total = total
        if self._target.total is None:  # a script ends by itself; a recipe's trial does not
            races.pace = replace(races.pace, total=total)
        leaders = self._leaders(lead, epoch)
        alone = races.alone() if not leaders else None
        if alone is not None and alone.outcome not in ("ok", OVER):
            raise DataError(f"it cannot be tried as it is: {alone.outcome}, {alone.reason}")
        first, again, *tried = self._first_race(leaders)
        if leaders and (races.apart is not None or first.outcome == LATE):
            leaders = []
            first, again, *tried = self._first_race(leaders)
        races.limit_pairs(self._seconds)
        if (failed := next((one for one in (first, again) if not one.is_ok), None)) is not None:
            how = "two runs as it is cannot be compared"
            if failed.outcome != OVER and alone is None:
                how = "it cannot be tried as it is"
            raise DataError(f"{how}: {failed.outcome}, {failed.reason}")
        runs = [first, again]
        if alone is not None:
            self.aside = alone.aside
            runs.insert(0, alone)
        comparison = self._judge.take_baseline(races.with_a_third(runs))
        self._note_scatter()
        why = f"two runs as it is: {comparison.why}; {self._sameness()}"
        seconds = (races.clock() - began) / (1 + len(tried))
        row = TuneRow.of(first, "as it is", "baseline", why, comparison=comparison)
        self._add(replace(row, plan=plan, seconds=seconds))
        self._judge.planned = first
        self._sort_out(leaders, first, tried, seconds)

    def _leaders(self, moves: Sequence[Move], epoch: float | None) -> list[Move]:
        """Return the moves that race beside the baseline's first two processes."""
        soon = epoch is not None and epoch < _EPOCH
        can = [m for m in moves if self._may_race(m) and (soon or not self._races.pays_from(m.ids))]
        most = max((move.gain or 0.0 for move in can), default=0.0)
        promised = [m for m in can if m.is_urgent or (m.gain and m.gain >= most / 2)]
        lead = promised[:_PROMISED] or can[:_LEAD]
        return [m for m in lead if changes_memory(m.ids) == changes_memory(lead[0].ids)]

    def _first_race(self, lead: Sequence[Move]) -> Sequence[Trial]:
        """Race the baseline against itself and, where memory holds them, against `lead`."""
        plan, races = self._target.baseline, self._races
        tried = [changed for move in lead if (changed := move.change(plan)) is not None]
        pace = short(races.pace, len(lead)) if lead else replace(races.pace, pairs=1)
        needs = [(), *(move.ids for move in lead)]
        return races.of([plan, plan, *tried], needs, pace, room=bool(lead))

    def _sameness(self) -> str:
        """Return how equal runs of the baseline are, and how they were made."""
        judge, apart = self._judge, self._races.apart
        why = "losses equal" if judge.noise == 0 else f"losses differ by {judge.noise:.1e}"
        judge.order = self._other_order(self.base)
        if judge.order is not None:
            why += f"; in another order of sums they differ by {judge.order.steps:.1e}"
        return why if apart is None else f"{why}; trials run one after the other: {apart}"

    def _other_order(self, base: Trial) -> Rounding | None:
        """Return the rounding difference of the baseline in another order of summation, or None."""
        plan = self._target.reordered
        if plan is None or base.evidence.draws:
            return None
        self._notify("as it is, in another order of sums")
        return rounding(base.evidence, self._races.alone(plan).evidence)

    def try_all(self, moves: Sequence[Move]) -> None:
        """Try each move against the best plan so far, then the known pairs, then close calls again.

        Moves that can race together do so first, in short trials.
        """
        waiting = [move for move in moves if move.name not in self._raced]
        idle = self._sift(waiting)
        for move in waiting:
            if (effect := idle.get(move.name)) is not None:
                self._give_up(move)
                self._add(TuneRow(name=move.name, decision=NO_EFFECT[effect[0]], why=effect[1]))
        waiting = [move for move in waiting if move.name not in idle]
        self._screen(waiting)
        for ratio, move in sorted(self._promising, key=lambda entry: entry[0]):
            if self._judge.pays(ratio, self._races.cost) or move.gain is not None:
                self._try(move)
            else:
                why = f"{1 / ratio:.2f}x in short: a longer trial costs more than ten runs gain"
                self._add(TuneRow(name=move.name, decision="dropped", why=why))
        for move in waiting:
            if move.name not in self._raced:
                self._try(move)
        for pair in pairs(moves, self._hopeless):
            self._try(pair)
        for ratio, move in sorted(self._unsure, key=lambda entry: entry[0])[:2]:
            if self._judge.pays(ratio, self._races.cost):
                self._try(move, again=True)

    def _screen(self, moves: Sequence[Move]) -> None:
        """Race the moves that may, a few at a time, beside the best plan so far."""
        races = self._races
        left = sorted(filter(self._may_race, moves), key=lambda move: races.pays_from(move.ids))
        while left and races.apart is None and races.lanes > 2:
            kind = races.kind(left[0].ids)
            batch = [move for move in left if races.kind(move.ids) == kind]
            batch = batch[: races.lanes - 1]
            if races.clock() + races.cost * (1 + len(batch)) / 2 > self._until:
                return
            left = [move for move in left if move not in batch]
            self._race_beside([move for move in batch if self._may_race(move)])

    def _may_race(self, move: Move) -> bool:
        """Whether a move may race beside others against the best plan so far."""
        changed = None if move.why_not is not None else move.change(self.plan)
        if changed is None or changed.ranks != self.plan.ranks or set(move.ids) & _SLOW:
            return False
        return not set(move.ids) & self._hopeless and self._skipped(move) is None

    def _race_beside(self, moves: Sequence[Move]) -> None:
        """Race moves beside the best plan so far, in short trials."""
        if not moves:
            return
        began = self._races.clock()
        self._notify(", ".join(move.name for move in moves))
        plans = [changed for move in moves if (changed := move.change(self.plan)) is not None]
        needs = [(*move.ids, *self._kept) for move in moves]
        pace = short(self._races.pace, self._judge.raced + len(moves))
        base, *tried = self._races.of([self.plan, *plans], needs, pace)
        self._sort_out(moves, base, tried, (self._races.clock() - began) / len(moves))

    def _sort_out(
        self, moves: Sequence[Move], base: Trial, tried: Sequence[Trial], seconds: float
    ) -> None:
        """Keep the fastest of the moves that raced together; note which others look faster."""
        faster = list[tuple[float, Move, TuneRow, Trial]]()
        for move, trial in zip(moves, tried, strict=True):
            if trial.outcome == "not run" or was_cut(trial, self._races.pace, self._races.clock()):
                continue
            self._raced.add(move.name)
            if ran_out(trial):  # by itself it may fit
                self._promising.append((1.0, move))
                continue
            row = self._row(move, base, trial, short(self._races.pace, 1))
            row, ratio = replace(row, seconds=seconds), ratio_of(row)
            if row.decision == "kept":
                faster.append((ratio, move, row, trial))
            elif self._judge.may_win_again(row):
                self._promising.append((ratio, move))
            else:
                self._add(row)
        faster.sort(key=lambda entry: entry[0])
        for place, (ratio, move, row, trial) in enumerate(faster):
            best = faster[0][1]
            if place == 0:
                self._accept(move, row, base, trial)
            elif set(move.ids) & set(best.ids):
                self._add(replace(row, decision="dropped", why=f"{best.name} is faster"))
            else:
                self._promising.append((ratio, move))

    def _sift(self, moves: Sequence[Move]) -> dict[str, tuple[str, str]]:
        """Return the moves without effect, and why, from one process with all compatible moves.

        A move that excludes an earlier one, or is another choice of the same technique, is not
        sifted. If that process fails, every move is tried by itself.
        """
        plan, sifted = self.plan, dict[str, Move]()
        for move in moves:
            changed = move.change(plan) if move.why_not is None and len(move.ids) == 1 else None
            if changed is None or move.ids[0] in sifted or move.ids[0] in _SLOW:
                continue
            if changed.ranks != plan.ranks or move.barred(plan) is not None:
                continue
            if {use.id for use in changed.techniques} >= {*sifted, *move.ids}:
                plan, sifted[move.ids[0]] = changed, move
        if len(sifted) < _FEW or self._races.clock() > self._deadline:
            return {}
        self._notify("which techniques have an effect")
        seen = self._races.first_step(plan).effects
        return {
            move.name: seen[id]
            for id, move in sifted.items()
            if seen.get(id, ("in effect", ""))[0] in NO_EFFECT
        }

    def _give_up(self, move: Move) -> None:
        """Give up a technique without effect, unless another choice may have one."""
        alone = move.change(self._target.baseline)
        if len(move.ids) == 1 and alone is not None and not alone.choice(move.ids[0]):
            self._hopeless |= set(move.ids)

    def prove(self) -> None:
        """Race the result against the baseline, unless it has done so; give it up if not faster."""
        plan, baseline, before, races = self.plan, self._target.baseline, self.proof, self._races
        if plan == baseline or (before is not None and before.plan == plan):
            return
        began = races.clock()
        pace = last_until(races.pace, max(self._deadline, began + _PROOF * races.cost))
        base, trial = races.of_two(baseline, plan, needs=self._kept, pace=pace)
        row = self._judge.proof(name_of(plan, baseline), base, trial, pace)
        row = replace(row, seconds=races.clock() - began)
        if row.decision != "proved" and before is not None:
            self._add(row)
            self.settle()
            return
        self.plan, self.proof = plan if row.decision == "proved" else baseline, row
        self._keep(row)

    def settle(self) -> None:
        """Go back to the plan that was proved, if there is one."""
        if self.proof is not None and self.proof.plan is not None:
            self.plan = self.proof.plan

    def _try(self, move: Move, *, again: bool = False) -> None:
        """Try one move and keep it if it is faster and trains alike."""
        races = self._races
        if move.why_not is not None:
            self._give_up(move)
            self._add(TuneRow(name=move.name, decision="refused", why=move.why_not))
            return
        plan = move.change(self.plan)
        if plan is None or set(move.ids) & self._hopeless:
            return
        if (skipped := self._skipped(move)) is not None:
            self._add(TuneRow(name=move.name, decision=skipped[0], why=skipped[1]))
            return
        name = f"{move.name}, again" if again else move.name
        self._notify(name)
        began = races.clock()
        pace = patient(races.pace) if again else races.pace
        needs = (*move.ids, *self._kept)
        base, trial = races.of_two(self.plan, plan, needs=needs, pace=pace)
        if races.apart is None and any(map(ran_out, (base, trial))):
            races.apart = "two did not fit into memory together"
            base, trial = races.of_two(self.plan, plan, needs=needs, pace=pace)
            if ran_out(trial):  # it does not fit alone either
                races.apart = None
        row = self._row(move, base, trial, pace)
        cached = "; its code came from the compiler's cache" * (again and bool(row.compiled))
        row = replace(row, name=name, why=row.why + cached, seconds=races.clock() - began)
        if row.decision == "kept":
            self._accept(move, row, base, trial)
            return
        if not again and self._judge.may_win_again(row):
            self._unsure.append((ratio_of(row), move))
        self._add(row)

    def _skipped(self, move: Move) -> tuple[Decision, str] | None:
        """Return the decision about a move that is not raced on the best plan so far, and why."""
        races = self._races
        if (why := move.barred(self.plan)) is not None:
            return "refused", why
        if (why := self._judge.too_little(move.limit, races.cost)) is not None:
            return "dropped", why
        out_of_time = races.clock() + races.cost > self._until
        return ("not tried", "the budget is used up") if out_of_time else None

    def _row(self, move: Move, base: Trial, trial: Trial, pace: RaceLength) -> TuneRow:
        """Return the row of a trial; give up what has no effect."""
        row = self._judge.row(move.name, base, trial, pace)
        if self.proof is not None:  # what is kept beyond it is proved by a longer race
            row = self._judge.worth_its_proof(row, self._races.proof_cost)
        self._note_scatter()
        if row.decision in NO_EFFECT.values():
            self._give_up(move)
        return row

    def _accept(self, move: Move, row: TuneRow, base: Trial, trial: Trial) -> None:
        """Keep the plan of a trial. If that certainly beats the baseline, it is proved by that."""
        plan = self.plan = trial.plan
        self._judge.take(trial, base, move.limit)
        self._kept = [id for id in (*self._kept, *move.ids) if plan.choice(id) is not None]
        self._add(row)
        if self._judge.is_proof(row, base, trial):
            name = name_of(plan, self._target.baseline)
            self.proof = replace(row, name=name, decision="proved", seconds=0.0)
            self._keep(self.proof)

    @property
    def _until(self) -> float:
        """The time of the clock after which no trial starts, as the proof needs the rest."""
        proved = self.proof.plan if self.proof is not None else self._target.baseline
        return self._deadline - (0.0 if self.plan == proved else _PROOF * self._races.cost)

    def reserve(self, seconds: float) -> None:
        """Keep `seconds` of the budget for what comes after the search."""
        self._seconds, self._deadline = self._seconds - seconds, self._deadline - seconds
        self._races.pace = replace(self._races.pace, deadline=self._deadline)

    def give_up(self, why: str) -> None:
        """Drop the plan that was proved, and say why."""
        assert self.proof is not None
        self.plan = self._target.baseline
        self.proof = replace(self.proof, decision="dropped", why=why)
        self._keep(self.proof)

    def _note_scatter(self) -> None:
        """Let races know how far two processes of one plan lie apart, and how they run."""
        races, judge = self._races, self._judge
        races.pace = replace(races.pace, scatters=judge.scatters)
        judge.edge = EDGE if races.apart is None else 2 * EDGE

    def _add(self, row: TuneRow) -> None:
        self.rows.append(row)
        self._keep(row)
