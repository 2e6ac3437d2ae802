"""Makes an unmodified script a tuning target: starts its trials and proposes moves."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from hotloop import techniques
from hotloop.core.errors import HotloopError
from hotloop.core.plan import Plan, Value
from hotloop.core.storage.rundir import RunDir
from hotloop.core.tuning_result import Edit, FixedCost
from hotloop.core.units import many
from hotloop.diagnosis.script import judge_again
from hotloop.diagnosis.script_plan import machine
from hotloop.process import child
from hotloop.rules.tried import of_technique
from hotloop.techniques.base import HostKind, Numerics
from hotloop.techniques.micro_batch import FACTORS, ratio
from hotloop.techniques.script_gate import cannot_pay
from hotloop.techniques.threads import counts
from hotloop.tuning.expected_gain import WORTH, expected_gain, limit, promised
from hotloop.tuning.lane import Entry
from hotloop.tuning.memory_room import how_many, most_bytes, why_apart
from hotloop.tuning.moves import ORDER, ordered
from hotloop.tuning.script_trial import command
from hotloop.tuning.trial_process import TrialProcess, fork_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from hotloop.core.case.case import Case
    from hotloop.core.finding import Diagnosis, Finding
    from hotloop.core.hardware import Hardware
    from hotloop.core.trial import Trial
    from hotloop.process.fork_server import ForkServer
    from hotloop.tuning.moves import Move

__all__ = [
    "DoctorFacts",
    "Script",
    "costs",
    "edits",
    "environment",
    "epoch_seconds",
    "last_words",
    "moves",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A script and its arguments, as they follow `python`."""

    command: tuple[str, ...]
    cwd: Path
    detect: Callable[[], Hardware] = machine  # takes seconds
    memory: int | None = None  # bytes that a trial may take
    server: ForkServer | None = None  # forks the trials

    @property
    def hardware(self) -> Hardware:
        """The machine."""
        return self.detect()

    @property
    def baseline(self) -> Plan:
        """The script as it is."""
        return Plan(micro_batch=1)

    @property
    def total(self) -> int | None:
        """None: unknown before the doctor has run."""
        return None

    def entry(self, plan: Plan, *, epochs: int, needs: Sequence[str]) -> Entry:
        """Return how to start a trial of a plan."""
        start = partial(self._start, plan)
        return Entry(plan=plan, start=start, epochs=epochs, needs=tuple(needs))

    def still(self, plan: Plan) -> Entry:
        """Return how to start a trial of a plan without dropout."""
        return Entry(plan=plan, start=partial(self._start, plan, dropout=False))

    def nudged(self, size: float, seed: int) -> Entry:
        """Return how to start the script from weights changed at random by `size` of each."""
        start = partial(self._start, self.baseline, nudge=(size, seed))
        return Entry(plan=self.baseline, start=start)

    @contextmanager
    def forking(self) -> Iterator[Script]:
        """Yield this target with a server that forks its trials."""
        with fork_server(environment(), cwd=self.cwd) as server:
            detect = self.detect
            if detect is machine:
                detect = cache(partial(machine, environment=environment(), server=server))
            yield replace(self, server=server, detect=detect)

    def _start(self, plan: Plan, **how: Any) -> TrialProcess:
        return TrialProcess(
            lambda channel: command(channel, plan, self.command, **how),
            memory=self.memory or most_bytes(self.hardware),
            cwd=self.cwd,
            environment=environment(),
            server=self.server,
        )

    def alone(self) -> Entry:
        """Return how to start the baseline's first trial."""
        return self.entry(self.baseline, epochs=0, needs=())

    def room(self, trial: Trial) -> str | None:
        """Return why two trials do not fit into memory together, or None."""
        return why_apart(trial, self.hardware)

    def lanes(self, trial: Trial) -> int:
        """Return how many trials fit into memory together; 2 if unknown."""
        return how_many(trial, self.hardware) or 2

    @property
    def reordered(self) -> Plan | None:
        """None: the order of summation in a script cannot be changed."""
        return None

    def look(self, folder: Path, *, seconds: float, experiments: float) -> DoctorFacts | str:
        """Run the doctor on the script; return its facts, or why there are none.

        It observes `seconds` of training, and tries other forms of the steps for `experiments`.
        """
        times = ("--time", f"{seconds:g}", "--experiments", f"{experiments:g}")
        words = (*times, "--out", str(folder), *self.command)
        outcome = child.run(
            (sys.executable, "-m", "hotloop", "doctor", *words),
            limits=child.ProcessLimits(seconds=2 * (seconds + experiments) + 60),
            cwd=self.cwd,
            environment=environment(),
        )
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        if not RunDir(folder).case.exists():
            return f"the doctor saw nothing: {outcome.reason or outcome.stderr[-300:]}"
        try:
            case, diagnosis = judge_again(folder)
        except HotloopError as error:
            return f"what the doctor saw cannot be read: {error}"
        failed = None if outcome.status == "ok" else last_words(outcome)
        if not case.steps.count:
            return f"the doctor saw no step: {failed or 'the script ended before one'}"
        if failed is None:
            return DoctorFacts(case=case, diagnosis=diagnosis)
        # The facts do not include the steps of the whole run.
        case = replace(case, stopped=f"the script failed: {failed}", planned_steps=None)
        why = f"the script failed under the doctor after {many(case.steps.count, 'step')}: {failed}"
        why += "; all its steps are not known"
        return DoctorFacts(case=case, diagnosis=diagnosis, failed=why)


def last_words(outcome: child.Outcome) -> str:
    """Return why a process failed: its exit code and the error of its last traceback, if any."""
    _, raised, after = outcome.stderr.rpartition("Traceback (most recent call last):\n")
    lines = (line for line in after.splitlines() if line.strip() and not line.startswith(" "))
    words = next(lines, "")[:300] if raised else ""
    return f"exit code {outcome.code}: {words}" if words else outcome.reason or outcome.status


def environment() -> dict[str, str]:
    """Return the environment variables of a trial, which fix hashes and take W&B offline."""
    return {**child.quiet(), "PYTHONHASHSEED": "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFacts:
    """The facts of a script that the doctor measured."""

    case: Case
    diagnosis: Diagnosis
    failed: str | None = None  # error that ended the script early


def moves(
    hardware: Hardware, facts: DoctorFacts | None, *, most: Numerics = Numerics.ROUNDING
) -> list[Move]:
    """Return the moves of a script, those first of which the doctor expects most.

    What it measured comes first, then what mends a finding above a note, then what acts on a large
    part of a step; what gains less than 3 % by its experiments comes last.
    """
    findings = facts.diagnosis.findings if facts else ()
    urgent = _named(finding for finding in findings if finding.severity == "critical")
    loud = _named(finding for finding in findings if finding.severity == "warn")
    gains: dict[str, float] = {}
    small = set[str]()
    for technique in techniques.ALL:
        gain = None if facts is None else expected_gain(facts.case, technique.id)
        if gain is not None and gain < WORTH:
            small.add(technique.id)
        elif gain is not None:
            gains[technique.id] = gain
    proposed = ordered(
        hardware,
        HostKind.SCRIPT,
        first=[
            *sorted(gains, key=lambda id: -gains[id]),
            *urgent,
            *loud,
            *_promising(facts, [*_named(findings), *ORDER]),
        ],
        last=small,
        choices=_choices(hardware, facts),
        most=most,
        why_not=lambda technique: None if facts is None else cannot_pay(technique, facts.case),
    )
    if facts is None:
        return proposed
    return [
        replace(
            move,
            gain=gains.get(move.ids[0]),
            limit=limit(facts.case, move.ids[0]),
            is_urgent=move.ids[0] in urgent and move.ids[0] not in small,
        )
        for move in proposed
    ]


def _named(findings: Iterable[Finding]) -> list[str]:
    """Return the techniques that are remedies of findings."""
    remedies = (remedy for finding in findings for remedy in finding.remedies)
    return [remedy.technique for remedy in remedies if remedy.technique is not None]


def _promising(facts: DoctorFacts | None, ids: Iterable[str]) -> list[str]:
    """Return techniques, those first that may gain most; of equals, those that come first."""
    unique = list(dict.fromkeys(ids))
    if facts is None:
        return unique
    return sorted(unique, key=lambda id: -promised(facts.case, id))


def _choices(
    hardware: Hardware, facts: DoctorFacts | None
) -> Mapping[str, Sequence[Mapping[str, Value]]]:
    cores = max(1, int(hardware.cores or 1))
    workers = sorted({1, 2, max(1, cores // 2), cores} & set(range(1, cores + 1)))
    has = facts is not None and any(loader.workers for loader in facts.case.training_loaders)
    return {
        "micro-batch": _factors(facts),
        "threads": [{"count": count} for count in _thread_counts(hardware, facts)],
        "loader-workers": [{"count": count} for count in ([0] * has + workers)],
        "activation-checkpointing": [{"mode": "off"}],
        # A trial ends before lengths that are learned in the first epoch have an effect.
        "length-bucketing": [{"lengths": "read"}],
        "token-budget": [{"lengths": "read"}],
    }


def _thread_counts(hardware: Hardware, facts: DoctorFacts | None) -> list[int]:
    """Return the numbers of threads to try, without those that an experiment found to be slower."""
    best = None if facts is None else of_technique(facts.case, "threads")
    if facts is None or best is None or best.outcome != "gain":
        return counts(hardware.cores)
    made = [one for one in facts.case.experiments if one.name == best.name and one.gain is not None]
    slower = {one.count for one in made if (one.high or 0.0) < (best.low or 0.0)}
    left = [count for count in counts(hardware.cores) if count not in slower]
    return sorted(left, key=lambda count: (count != best.count, count))


def _factors(facts: DoctorFacts | None) -> Sequence[Mapping[str, Value]]:
    """Return the factors that divide the numbers of a script that accumulates gradients."""
    if facts is None:
        return []
    passes = round(facts.case.steps.backwards or 1.0)
    rows = [loader.batch_size or 1 for loader in facts.case.training_loaders]
    fitting = [
        factor
        for factor in FACTORS
        if passes % ratio(factor).numerator == 0
        and all(size % ratio(factor).denominator == 0 for size in rows)
    ]
    experiments = facts.case.experiments
    joined = {f"x{one.count}" for one in experiments if one.name == "joined batches"}
    fitting.sort(key=lambda factor: factor not in joined)  # what the doctor measured comes first
    # Without accumulation, a single move gives the reason why none is tried.
    return [{"factor": factor} for factor in fitting] if passes > 1 else [{}]


def epoch_seconds(case: Case) -> float | None:
    """Return the seconds of an epoch of the training; None if its length is unknown."""
    batches = [loader.batches for loader in case.training_loaders if loader.batches is not None]
    if not batches or case.step_time is None or not case.steps.count:
        return None
    return max(batches) * case.step_time.median


def costs(facts: DoctorFacts) -> list[FixedCost]:
    """Return the cost of saves and evaluations that the doctor measured."""
    case, fixed_costs = facts.case, list[FixedCost]()
    for what, events in (("a save", case.saves), ("an evaluation", case.evaluations)):
        if events:
            seconds = sum(event.seconds for event in events)
            share = f"{case.part(seconds):.1%} of the time"
            note = f"{len(events)} in {case.steps.count} steps, {share}"
            fixed_costs.append(FixedCost(what=what, before=seconds / len(events), note=note))
    return fixed_costs


def edits(facts: DoctorFacts, plan: Plan) -> list[Edit]:
    """Return the findings that no technique of the plan addresses, as edits."""
    suggestions = []
    for finding in facts.diagnosis.findings:
        ids = {remedy.technique for remedy in finding.remedies if remedy.technique}
        if any(plan.choice(id) is not None for id in ids):
            continue
        by_hand = [remedy for remedy in finding.remedies if remedy.technique is None]
        if by_hand and finding.places and finding.severity != "note":
            suggestions.append(
                Edit(
                    rule=finding.rule,
                    claim=finding.claim,
                    share=finding.share,
                    places=tuple(finding.places),
                    remedy=by_hand[0].text,
                )
            )
    return suggestions
