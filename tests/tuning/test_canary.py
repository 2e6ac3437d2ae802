"""What the canary concludes from the processes that it starts; they are made up here."""

from dataclasses import dataclass, field

import pytest

from hotloop.core.agreement import FEWEST_LATE, NUDGES
from hotloop.core.plan import Plan, Use
from hotloop.tuning.canary import PATIENCE, canary, sifted
from hotloop.tuning.first_step_record import STEPS
from hotloop.tuning.trial_process import TrialEnded, TrialReport

LOSSES = [2.0, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4, 1.3]
FAILED = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    optimizer.step()
RuntimeError: planted
of two lines
"""


@dataclass(kw_only=True)
class Behaviour:
    """How a process of the canary behaves."""

    factor: float = 1.0  # on its losses
    later_factor: float = 1.0  # on those after the first
    ends: TrialEnded | None = None  # in place of the first step
    later: TrialEnded | None = None  # in place of the other steps
    stderr: str = ""
    effect: str = "in effect"


@dataclass
class Machine:
    """Starts made-up processes, and keeps what was asked for. Its clock stands still."""

    with_: dict[str, Behaviour] = field(default_factory=dict)  # technique -> behaviour
    plain: list[Behaviour] = field(default_factory=lambda: [Behaviour()])  # the last one repeats
    started: list[tuple[set[str], bool]] = field(default_factory=list)
    nudged: Behaviour = field(default_factory=Behaviour)
    nudges: list[tuple[float, int]] = field(default_factory=list)
    closed: int = 0
    now: float = 0.0
    each: float = 0.0  # seconds that a process takes

    def start(self, plan: Plan, *, dropout: bool = True, nudge=None) -> "Process":
        ids = {use.id for use in plan.techniques}
        if nudge is not None:
            self.nudges.append(nudge)
            return Process(self, self.nudged, {})
        plain = self.plain.pop(0) if len(self.plain) > 1 else self.plain[0]
        if ids:
            self.plain.insert(0, plain)
        self.started.append((ids, dropout))
        self.now += self.each
        bad = [behaviour for id, behaviour in self.with_.items() if id in ids]
        effects = dict.fromkeys(ids, "in effect")
        effects |= {id: one.effect for id, one in self.with_.items() if id in ids}
        return Process(self, bad[0] if bad else plain if not ids else Behaviour(), effects)

    def canary(self, *ids: str, patience: float = PATIENCE):
        plan = Plan(micro_batch=1, techniques=tuple(map(Use.of, ids)))
        return canary(plan, self.start, patience=patience, clock=lambda: self.now)


@dataclass
class Process:
    machine: Machine
    behaviour: Behaviour
    effects: dict[str, str]

    @property
    def stderr(self) -> str:
        return self.behaviour.stderr

    def first(self, *, seconds: float) -> TrialReport:
        return self.report(1, {}, self.behaviour.ends)

    def block(self, steps: int, *, seconds: float) -> TrialReport:
        first, *later = (loss * self.behaviour.factor for loss in LOSSES)
        losses = [first, *(loss * self.behaviour.later_factor for loss in later)]
        evidence = {"losses": losses, "norms": losses, "tensors": {"0.0": losses[0]}}
        evidence |= {"samples": {"0.0": losses}, "late": losses * (steps // 8)}
        return self.report(steps + 1, evidence, self.behaviour.later)

    def report(self, at: int, evidence: dict, ended: TrialEnded | None) -> TrialReport:
        if ended is not None:
            raise ended
        effects = {id: (word, "how") for id, word in self.effects.items()}
        more = {"evidence": evidence, "effects": effects}
        return TrialReport(seconds=0.1, made=1, at=at, more=more)

    def close(self) -> None:
        self.machine.closed += 1


def ids(plan: Plan) -> list[str]:
    return [use.id for use in plan.techniques]


@pytest.mark.parametrize(
    ("guilty", "left", "most"),
    [
        ([], "", 1),
        (["a"], "a", 4),
        (["c"], "c", 4),
        (["e"], "e", 4),
        (["b", "d"], "bd", 7),
        (["a", "b", "c", "d", "e"], "abcde", 12),
        (["ac"], "c", 4),  # only together
        (["ab", "ce"], "be", 7),
    ],
)
def test_the_guilty_are_found_by_halving_and_what_is_left_has_passed_together(guilty, left, most):
    tried: list[str] = []

    def why_not(members) -> str | None:
        tried.append("".join(members))
        return next((bad for bad in guilty if set(bad) <= set(members)), None)

    good, out = sifted(["abcde"], why_not)
    assert "".join(member for member, _ in out) == left
    assert sorted([*good, *left]) == list("abcde")
    assert not good or "".join(good) in tried
    assert len(tried) <= most


def test_what_passes_costs_two_processes_and_is_said():
    machine = Machine()
    found = machine.canary("fused-adamw", "gc-freeze")
    assert ids(found.plan) == ["fused-adamw", "gc-freeze"]
    assert found.same == "8 losses equal bit for bit"
    assert (found.left_out, found.unchecked) == ([], [])
    assert machine.started == [(set(), True), ({"fused-adamw", "gc-freeze"}, True)]
    assert machine.closed == 2


KILLED = "it was killed by SIGSEGV, which hotloop did not send"


@pytest.mark.parametrize(
    ("bad", "why", "traceback"),
    [
        (
            Behaviour(later=TrialEnded("failed", "x", at=2), stderr=f"epoch 1\n{FAILED}"),
            "the script raises RuntimeError: planted after 2 steps",
            FAILED.rstrip(),
        ),
        (
            Behaviour(ends=TrialEnded("killed", KILLED)),
            f"the script's process ended: {KILLED}",
            "",
        ),
        (
            Behaviour(ends=TrialEnded("timeout", "x")),
            "the first step had not come after 60 s; as it is, it comes after 0.00 s",
            "",
        ),
        (
            Behaviour(later=TrialEnded("timeout", "x")),
            "steps 2 to 8 were not over after 60 s",
            "",
        ),
        (
            Behaviour(later=TrialEnded("over", "x", at=3)),
            "the script ends after 3 steps; as it is, not in 8 steps",
            "",
        ),
        (
            Behaviour(factor=1.001),
            "losses differ: 2.002 instead of 2 at the first (1.0e-03, allowed 3.0e-06)",
            "",
        ),
    ],
)
def test_what_fails_or_computes_something_else_is_left_out_alone(bad, why, traceback):
    machine = Machine(with_={"gc-freeze": bad})
    found = machine.canary("channels-last", "fused-adamw", "gc-freeze")
    assert ids(found.plan) == ["channels-last", "fused-adamw"]
    assert [one.use.id for one in found.left_out] == ["gc-freeze"]
    (one,) = found.left_out
    assert one.why.replace("6.0e-06", "3.0e-06") == why  # of both that promise rounding
    assert one.traceback == traceback
    assert found.same == "8 losses equal bit for bit"
    assert machine.closed == len(machine.started)


def test_a_script_that_fails_by_itself_is_no_fault_of_a_technique():
    bad = Behaviour(ends=TrialEnded("failed", "x"), stderr=FAILED)
    machine = Machine(plain=[bad])
    found = machine.canary("gc-freeze")
    assert ids(found.plan) == ["gc-freeze"]
    why = "the script fails without techniques too: the script raises RuntimeError: planted"
    assert found.unchecked == (f"{why} after 0 steps",)
    assert len(machine.started) == 1


def test_a_long_start_is_not_waited_for_and_the_way_out_is_named():
    machine = Machine(plain=[Behaviour(ends=TrialEnded("timeout", "x"))])
    found = machine.canary("gc-freeze")
    said = "the first step had not come after 60 s; hotloop run --canary 600 waits longer"
    assert (ids(found.plan), found.unchecked) == (["gc-freeze"], (said,))


def test_slow_steps_are_tried_and_not_compared():
    slow = TrialEnded("timeout", "x")
    hangs = Behaviour(ends=TrialEnded("killed", KILLED))
    machine = Machine(plain=[Behaviour(later=slow)], with_={"gc-freeze": hangs})
    found = machine.canary("fused-adamw", "gc-freeze")
    assert ids(found.plan) == ["fused-adamw"]
    assert found.unchecked == ["losses were not compared: 8 steps had not come after 60 s"]


@pytest.mark.parametrize(("ends_after", "kept"), [(3, ["gc-freeze"]), (2, [])])
def test_a_short_script_must_make_as_many_steps_as_without(ends_after, kept):
    over = Behaviour(later=TrialEnded("over", "x", at=ends_after))
    plain = Behaviour(later=TrialEnded("over", "x", at=3))
    found = Machine(plain=[plain], with_={"gc-freeze": over}).canary("gc-freeze")
    assert ids(found.plan) == kept
    said = ["losses were not compared: the script makes only 3 steps"]
    assert list(found.unchecked) == (said if kept else [])


def test_where_two_plain_runs_differ_losses_tell_nothing_and_nothing_is_left_out():
    runs = [Behaviour(), Behaviour(factor=1.2), Behaviour(factor=1.1)]
    machine = Machine(plain=runs, with_={"gc-freeze": Behaviour(factor=1.5)})
    found = machine.canary("gc-freeze")
    assert ids(found.plan) == ["gc-freeze"]
    assert found.same is None
    said = (
        "losses tell nothing: two runs as it is differ by 2.0e-01: set a seed, then it can be told"
    )
    assert found.unchecked == [said]
    assert [bool(put_in) for put_in, _ in machine.started] == [False, True, False, False]


def test_a_bitwise_technique_does_not_hide_behind_one_that_changes_the_training():
    machine = Machine(with_={"gc-freeze": Behaviour(factor=1.001)})
    found = machine.canary("gc-freeze", "token-budget")
    assert ids(found.plan) == ["token-budget"]
    assert found.left_out[0].why.startswith("losses differ: 2.002 instead of 2 at the first")
    assert found.same is not None
    assert "mean loss of the same" in found.same


def test_a_changed_training_is_looked_at_for_longer():
    worse = Machine(with_={"token-budget": Behaviour(factor=3.0)}).canary("token-budget")
    assert "it learns less: mean loss of the same" in worse.left_out[0].why
    assert STEPS + FEWEST_LATE == 28


def test_where_dropout_draws_other_masks_all_run_without_it():
    machine = Machine()
    assert machine.canary("dynamic-padding").same == "without dropout, 8 losses equal bit for bit"
    assert [dropout for _, dropout in machine.started] == [False, False]


def test_what_the_shield_denies_is_no_fault_of_a_technique():
    denied = FAILED.replace("RuntimeError: planted", "PermissionError: [Errno 13] /opt/cache")
    bad = Behaviour(ends=TrialEnded("failed", "x"), stderr=denied)
    found = Machine(with_={"gc-freeze": bad}).canary("gc-freeze")
    assert ids(found.plan) == ["gc-freeze"]
    assert "may write no file: the script raises PermissionError" in found.unchecked[0]


def test_a_technique_that_is_refused_in_the_canary_counts_as_unchecked():
    machine = Machine(with_={"gc-freeze": Behaviour(effect="refused")})
    assert machine.canary("fused-adamw", "gc-freeze").unchecked == [
        "refused in the canary: gc-freeze"
    ]


def test_the_search_ends_in_time_and_puts_in_only_what_has_passed():
    bad = Behaviour(ends=TrialEnded("killed", KILLED))
    machine = Machine(with_={"gc-freeze": bad}, each=4.0)
    found = machine.canary("channels-last", "fused-adamw", "gc-freeze", "threads", patience=3.0)
    assert ids(found.plan) == ["channels-last", "fused-adamw"]
    assert [one.use.id for one in found.left_out] == ["gc-freeze", "threads"]
    assert found.left_out[1].why == "the canary had no time left to try it"


def test_compiling_may_take_longer_and_is_tried_last():
    machine = Machine(with_={"compile": Behaviour(ends=TrialEnded("timeout", "x"))})
    found = machine.canary("compile", "fused-adamw", "gc-freeze")
    assert machine.started[2:] == [({"fused-adamw"}, True), ({"fused-adamw", "gc-freeze"}, True)]
    assert found.left_out[0].why.startswith("the first step had not come after 300 s")


def test_a_training_that_amplifies_roundings_loses_no_technique_for_it():
    moved = {"fused-adamw": Behaviour(later_factor=1.2)}
    amplifies = Machine(moved, nudged=Behaviour(later_factor=0.9))
    assert ids(amplifies.canary("fused-adamw").plan) == ["fused-adamw"]
    assert len(set(amplifies.nudges)) == NUDGES
    calm = Machine(moved)
    assert "losses differ" in calm.canary("fused-adamw").left_out[0].why
    first = Machine({"fused-adamw": Behaviour(factor=1.2)}, nudged=Behaviour(later_factor=0.9))
    assert first.canary("fused-adamw").left_out, "the first loss is not amplified"
    assert not first.nudges
