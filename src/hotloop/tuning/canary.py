"""Tries the techniques of `hotloop run` for a few steps before they touch the real run.

The script is started as it is, and then with all techniques, each time in a process that changes no
file (tuning/canary_trial.py). A technique with which the script fails, or computes other losses or
gradients than the technique promises, is found by halving and left out. The set that goes on has
been run together.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from hotloop.core.agreement import FEWEST_LATE, NUDGES, Evidence, agree, noise
from hotloop.core.plan import Plan
from hotloop.core.units import duration, many
from hotloop.techniques.base import Stage
from hotloop.techniques.selection import find
from hotloop.tuning import canary_trial
from hotloop.tuning.first_step_record import STEPS
from hotloop.tuning.moves import promise
from hotloop.tuning.trial_process import TrialEnded, TrialProcess, TrialReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hotloop.core.plan import Use

__all__ = ["PATIENCE", "CanaryResult", "CanaryTarget", "LeftOut", "canary", "sifted"]

PATIENCE: Final = 60.0  # seconds: a longer start is not made three times without being asked for
# Times the patience. Compiling a GPT of two blocks, with nothing in its cache, took 44 s on a core
# that other programs used too (2026-11).
_COMPILING: Final = 5
_SEARCH: Final = 5  # times the patience with all techniques: the whole canary
_PLAIN: Final = Plan(micro_batch=1)  # the script as it is
_DENIED: Final = ("PermissionError", "Read-only file system")  # how the shield is noticed

_T = TypeVar("_T")
_Why = TypeVar("_Why")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A technique that does not go into the real run."""

    use: Use
    why: str  # a sentence without its full stop
    traceback: str = ""  # of the script, where it raised


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryResult:
    """What the canary found."""

    plan: Plan  # with the techniques that go on
    left_out: Sequence[LeftOut]
    seconds: float  # that it took
    same: str | None = None  # how losses and gradients of the set that goes on were compared
    unchecked: Sequence[str] = ()  # what could not be checked, and why


class Trying(Protocol):
    """One process of the canary; see TrialProcess."""

    @property
    def stderr(self) -> str:
        """Return the end of what it printed on stderr, once it is closed."""

    def first(self, *, seconds: float) -> TrialReport:
        """Wait for the first step."""

    def block(self, steps: int, *, seconds: float) -> TrialReport:
        """Have it make steps."""

    def close(self) -> None:
        """End it."""


class Starting(Protocol):
    """Starts a process of the canary; see script_trial.command."""

    def __call__(
        self, plan: Plan, *, dropout: bool = True, nudge: tuple[float, int] | None = None
    ) -> Trying:
        """Start it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryTarget:
    """A script with its arguments, as they follow `python`."""

    command: tuple[str, ...]
    cwd: Path
    memory: int | None = None  # bytes that a process of the canary may take

    def start(
        self, plan: Plan, *, dropout: bool = True, nudge: tuple[float, int] | None = None
    ) -> Trying:
        """Start a process of the canary."""
        return TrialProcess(
            lambda channel: canary_trial.command(
                channel, plan, self.command, dropout=dropout, nudge=nudge
            ),
            memory=self.memory,
            cwd=self.cwd,
            environment=canary_trial.variables(self.command, self.cwd),
        )


def canary(
    plan: Plan,
    start: Starting,
    *,
    patience: float = PATIENCE,
    notify: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> CanaryResult:
    """Run the script for a few steps as it is and with `plan`; return what goes on.

    `start` starts a process; `patience` is how long the first step, and the others
    together, may take, in seconds. Raises KeyboardInterrupt on Ctrl-C, once no process is left.
    """
    began = clock()
    trials = _Trials(plan, start, patience, notify, clock)
    plain = trials.see_plain()
    if plain is not None:
        return CanaryResult(plan=plan, left_out=(), seconds=clock() - began, unchecked=(plain,))
    uses = sorted(plan.techniques, key=lambda use: _is_slow([use]))
    exact = [use for use in uses if not _is_training([use])]
    others = [use for use in uses if use not in exact]
    kept, out = sifted((exact, others), trials.why_not)
    return CanaryResult(
        plan=replace(plan, techniques=tuple(kept)),
        left_out=[LeftOut(use=use, why=why.text, traceback=why.traceback) for use, why in out],
        seconds=clock() - began,
        same=trials.same.get(frozenset(kept)),
        unchecked=trials.notes(kept),
    )


def sifted(
    groups: Sequence[Sequence[_T]], why_not: Callable[[Sequence[_T]], _Why | None]
) -> tuple[list[_T], list[tuple[_T, _Why]]]:
    """Return the members that pass together, and the others with their reasons.

    `why_not(members)` tries some members together and returns why they do not pass, or None. All of
    a group are tried first, beside those of the groups before that pass. If they do not pass, the
    first one with which they no longer do is found by halving, left out, and the rest is tried.
    """
    good, out = list[_T](), list[tuple[_T, _Why]]()
    for group in groups:
        rest = list(group)
        while rest and (why := why_not([*good, *rest])) is not None:
            passing, failing = 0, len(rest)  # so many of the rest
            while failing - passing > 1:
                middle = (passing + failing) // 2
                found = why_not([*good, *rest[:middle]])
                if found is None:
                    passing = middle
                else:
                    failing, why = middle, found
            out.append((rest[passing], why))
            good += rest[:passing]
            rest = rest[failing:]
        good += rest
    return good, out


def _is_training(uses: Sequence[Use]) -> bool:
    """Whether the losses under these uses can only be compared by what is learned."""
    return promise(replace(_PLAIN, techniques=tuple(uses)), _PLAIN).is_training


def _is_slow(uses: Sequence[Use]) -> bool:
    """Whether the first step under these uses takes much longer than the others."""
    return any(find(use.id).stage is Stage.COMPILE for use in uses)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    """Why some techniques do not pass."""

    text: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """What became of one process."""

    evidence: Evidence | None = None  # None: too few steps
    at: int = 0  # steps made
    first: float = 0.0  # seconds until the first step
    ended: TrialEnded | None = None  # it made fewer steps than it was asked for
    effects: dict[str, str] = field(default_factory=dict)  # technique -> word
    stderr: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the script came to its own end."""
        return self.ended is not None and self.ended.outcome == "over"


class _Trials:
    """Runs the script under plans and compares them with the script as it is."""

    def __init__(
        self,
        plan: Plan,
        start: Starting,
        patience: float,
        notify: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._start, self._patience, self._notify, self._clock = start, patience, notify, clock
        self._deadline = clock() + _SEARCH * self._patience_with(plan.techniques)
        # Dropout of another shape draws other masks, so it is left out of all of the processes.
        self._dropout = not promise(plan, _PLAIN).redraws
        self._steps = STEPS + (FEWEST_LATE if _is_training(plan.techniques) else 0)
        self._plain = _Ran()
        self._noise: float | None = None  # of the script as it is, once it is needed
        self._nudged: dict[float, Sequence[Evidence]] = {}
        self._short: str | None = None  # why no losses are compared
        self.same: dict[frozenset[Use], str] = {}  # how sets of techniques that pass were compared
        self._unsure: dict[frozenset[Use], str] = {}
        self._effects: dict[str, str] = {}  # technique -> word

    def see_plain(self) -> str | None:
        """Run the script as it is; return why nothing can be checked, or None."""
        self._notify("canary: the first steps of the script as it is")
        self._plain = plain = self._made(_PLAIN, self._patience)
        if plain.ended is None:
            return None
        if plain.at == 0 or not (plain.is_over or plain.ended.outcome == "timeout"):
            return _why_no_step(plain, self._patience)
        if plain.is_over:
            self._short = f"the script makes only {many(plain.at, 'step')}"
        else:
            self._short = f"{STEPS} steps had not come after {self._patience:.0f} s"
            self._steps = 1
        return None

    def why_not(self, uses: Sequence[Use]) -> _Fault | None:
        """Run the script with techniques; return why they do not pass, or None."""
        if self._clock() > self._deadline:
            return _Fault(text="the canary had no time left to try it")
        names = ", ".join(use.id for use in uses)
        self._notify(f"canary: the first steps with {names}")
        plan = replace(_PLAIN, techniques=tuple(uses))
        limit = self._plain.first + self._patience_with(uses)
        ran = self._made(plan, limit)
        self._effects |= ran.effects
        found = self._fault(ran, limit)
        if found is not None and any(word in found.text for word in _DENIED):
            self._unsure[frozenset(uses)] = f"the process may write no file: {found.text}"
            return None
        if found is not None or ran.evidence is None or self._plain.evidence is None:
            return found
        return self._other_losses(frozenset(uses), plan, ran.evidence)

    def notes(self, kept: Sequence[Use]) -> list[str]:
        """Return what could not be checked of the set that goes on."""
        if not kept:
            return []
        found = [self._unsure.get(frozenset(kept))]
        if self._short is not None:
            found.append(f"losses were not compared: {self._short}")
        if refused := [use.id for use in kept if self._effects.get(use.id) == "refused"]:
            found.append(f"refused in the canary: {', '.join(refused)}")
        return [note for note in found if note]

    def _patience_with(self, uses: Sequence[Use]) -> float:
        """Return how much longer than as it is the first step may take, in seconds."""
        return self._patience * (_COMPILING if _is_slow(uses) else 1)

    def _made(self, plan: Plan, patience: float, *, nudge: tuple[float, int] | None = None) -> _Ran:
        """Run the script for its first steps; `patience`: seconds for the first one."""
        process = self._start(plan, dropout=self._dropout, nudge=nudge)
        began = self._clock()
        reports, ended, first = list[TrialReport](), None, 0.0
        try:
            reports.append(process.first(seconds=patience))
            first = self._clock() - began
            if self._steps > 1:
                reports.append(process.block(self._steps - 1, seconds=patience))
        except TrialEnded as error:
            ended = error
        finally:
            process.close()
        said = dict(itertools.chain(*(report.more["evidence"].items() for report in reports)))
        effects = reports[-1].more.get("effects") or {} if reports else {}
        return _Ran(
            evidence=Evidence(**said) if "losses" in said else None,
            at=max([report.at for report in reports] + ([ended.at] if ended else [])),
            first=first,
            ended=ended,
            effects={id: word for id, (word, _) in effects.items()},
            stderr=process.stderr,
        )

    def _fault(self, ran: _Ran, limit: float) -> _Fault | None:
        """Return how a process with a `limit` in seconds did worse than the script as it is."""
        plain = self._plain
        if ran.ended is not None and ran.ended.outcome == "timeout":
            if ran.at > 0:
                return _Fault(text=f"steps 2 to {self._steps} were not over after {limit:.0f} s")
            comes = f"as it is, it comes after {duration(plain.first)}"
            return _Fault(text=f"the first step had not come after {limit:.0f} s; {comes}")
        if ran.ended is not None and not ran.is_over:
            return _Fault(text=_words(ran), traceback=_traceback(ran.stderr))
        if ran.is_over == plain.is_over and (ran.at == plain.at or not ran.is_over):
            return None
        how = [
            f"after {many(each.at, 'step')}" if each.is_over else f"not in {many(each.at, 'step')}"
            for each in (ran, plain)
        ]
        return _Fault(text=f"the script ends {how[0]}; as it is, {how[1]}")

    def _other_losses(self, uses: frozenset[Use], plan: Plan, seen: Evidence) -> _Fault | None:
        """Return how losses or gradients differ beyond the promise of the plan, or None."""
        base = self._plain.evidence
        assert base is not None
        promised = replace(promise(plan, _PLAIN), redraws=False)  # both ran without dropout
        parity = agree(base, seen, promised, noise=self._noise or 0.0)
        if parity.kept is False and self._noise is None:
            self._noise = self._measured_noise(base)
            parity = agree(base, seen, promised, noise=self._noise)
        if parity.may_be_amplified:
            nudged = self._nudges(promised.tolerance)
            parity = agree(base, seen, promised, noise=self._noise or 0.0, nudged=nudged)
        if parity.kept is False:
            return _Fault(text=parity.why)
        if parity.kept is None:
            self._unsure[uses] = f"losses tell nothing: {parity.why}"
        else:
            self.same[uses] = parity.why if self._dropout else f"without dropout, {parity.why}"
        return None

    def _nudges(self, size: float) -> Sequence[Evidence]:
        """Return what the script computes from weights changed at random by `size` of each."""
        if size not in self._nudged:
            self._notify("canary: the first steps from weights changed by a rounding")
            limit = self._plain.first + self._patience
            runs = [self._made(_PLAIN, limit, nudge=(size, seed)) for seed in range(NUDGES)]
            self._nudged[size] = [run.evidence for run in runs if run.evidence is not None]
        return self._nudged[size]

    def _measured_noise(self, base: Evidence) -> float:
        """Return how far runs of the script as it is differ; a third run is made if two do."""
        runs = [base]
        while len(runs) < 3 and (len(runs) == 1 or noise(*runs)):
            self._notify("canary: the first steps of the script as it is, once more")
            again = self._made(_PLAIN, self._plain.first + self._patience).evidence
            if again is None:
                return float("inf")  # it does not even make its steps each time
            runs.append(again)
        return max(noise(a, b) for a, b in itertools.combinations(runs, 2))


def _why_no_step(plain: _Ran, patience: float) -> str:
    """Return why the script as it is shows nothing."""
    assert plain.ended is not None
    if plain.ended.outcome == "timeout":
        longer = f"hotloop run --canary {10 * patience:.0f} waits longer"
        return f"the first step had not come after {patience:.0f} s; {longer}"
    if plain.is_over:
        return plain.ended.reason
    return f"the script fails without techniques too: {_words(plain)}"


def _words(ran: _Ran) -> str:
    """Return how the script failed."""
    assert ran.ended is not None
    lines = _traceback(ran.stderr).splitlines()[1:]
    raised = next((line for line in lines if line.strip() and not line.startswith(" ")), "")
    if not raised:
        return f"the script's process ended: {ran.ended.reason}"
    return f"the script raises {raised:.300} after {many(ran.at, 'step')}"


def _traceback(stderr: str) -> str:
    """Return the last traceback of what a script printed, or ""."""
    _, heading, rest = stderr.rpartition("Traceback (most recent call last):\n")
    return heading + rest.rstrip() if heading else ""
