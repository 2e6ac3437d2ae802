"""Seconds of a run as rules speak of them."""

import pytest
from tests.golden.cases import SCRIPT, healthy, stack, wall

from hotloop.core.case.case import Case
from hotloop.core.case.objects import Model
from hotloop.core.case.steps_and_loaders import Steps, Sync
from hotloop.core.finding import Finding, SourceLocation
from hotloop.rules.support.costs import (
    Site,
    compute_dtype,
    costing,
    flop_rate,
    hot_path,
    hottest,
    in_steps,
    seconds_at,
    whole_run,
)

LOOP = """
for x in loader:
    model(x).backward()
    log(x)
"""


def found(case: Case, seconds: float, **said: object) -> Finding | None:
    return costing(case, seconds, claim="it costs", **said)


def test_a_finding_carries_share_saving_ceiling_and_severity():
    case = healthy(wall={"forward": 60.0, "after step": 40.0})
    finding = found(case, 40.0)
    assert finding is not None
    assert finding.share == pytest.approx(0.4)
    assert finding.saves == pytest.approx(0.04)  # of 1,000 steps
    assert finding.ceiling == pytest.approx(100 / 60)
    assert finding.severity == "critical"


def test_below_the_gate_there_is_no_finding_unless_it_is_lowered():
    case = healthy(wall={"forward": 99.0, "after step": 1.0})
    assert found(case, 1.0) is None
    finding = found(case, 1.0, least=0.0)
    assert finding is not None
    assert finding.severity == "note"


def test_a_share_can_be_of_the_whole_run():
    finding = found(healthy(wall={"forward": 10.0}), 5.0, of=50.0)
    assert finding is not None
    assert finding.share == pytest.approx(0.1)


def test_a_run_without_seconds_has_no_finding():
    assert found(healthy(wall={}), 0.0) is None


def test_time_at_a_line_counts_what_the_line_calls():
    deep = stack("after step", 2.0, ("/usr/lib/x.py", 4, "f"), (SCRIPT, 4, "main"))
    other = stack("after step", 1.0, (SCRIPT, 5, "main"))
    case = healthy(stacks=(deep, other))
    at = Site(file=SCRIPT, first=4, last=4)
    assert seconds_at(case, [at]) == 2.0
    assert seconds_at(case, [at], rows=("log",)) == 0.0
    assert seconds_at(case, []) == 0.0


def test_timed_waits_count_where_samples_saw_less():
    sync = Sync(
        method="item", place=SourceLocation(file=SCRIPT, line=4), calls=9, per_step=1.0, seconds=3.0
    )
    case = healthy(stacks=(stack("after step", 2.0, (SCRIPT, 4, "main")),), syncs=(sync,))
    assert seconds_at(case, [Site(file=SCRIPT, first=3, last=5)]) == 3.0


def test_the_hot_path_ends_where_no_line_holds_half():
    log, main = (SCRIPT, 20, "log"), (SCRIPT, 4, "main")
    stacks = [
        stack("after step", 2.0, (SCRIPT, 30, "auc"), log, main),
        stack("after step", 2.0, (SCRIPT, 31, "auc"), log, main),
        stack("after step", 1.0, (SCRIPT, 32, "f1"), (SCRIPT, 21, "log"), main),
    ]
    case = healthy(sources={SCRIPT: LOOP})
    assert hot_path(case, stacks) == [
        SourceLocation(file=SCRIPT, line=20),
        SourceLocation(file=SCRIPT, line=4),
    ]
    assert hot_path(healthy(), stacks) == [SourceLocation(file=SCRIPT, line=20)]  # no loop is known


def test_without_a_line_that_holds_half_the_innermost_is_named():
    stacks = [stack("log", seconds, (SCRIPT, line, "f")) for line, seconds in ((7, 2.0), (8, 3.0))]
    stacks.append(stack("log", 2.0, (SCRIPT, 9, "f")))
    assert hot_path(healthy(), stacks) == [SourceLocation(file=SCRIPT, line=8)]
    assert hot_path(healthy(), []) == hottest([]) == []
    assert hot_path(healthy(), [stack("log", 1.0, ("/usr/lib/x.py", 4, "f"))]) == []


def test_a_stopped_run_is_taken_in_proportion_and_its_start_once():
    rows = {"import": 2.0, "forward": 10.0}
    assert whole_run(healthy(wall=rows)) == 12.0
    assert whole_run(healthy(wall=rows, stopped="early")) is None
    assert whole_run(healthy(wall=rows, stopped="early", planned_steps=3000)) == 32.0


def test_the_steps_seconds_leave_evaluation_out():
    assert in_steps(healthy(wall=wall(evaluate=50.0)), 0.5) == pytest.approx(9.97 / 2)


def test_flops_are_counted_or_six_per_parameter_and_token():
    assert flop_rate(healthy(steps=Steps(count=1, wall=(0.5,), flops=1e9))) == 2e9
    guessed = Steps(count=1, wall=(0.5,), tokens=10.0, backwards=2.0)
    assert flop_rate(healthy(steps=guessed)) == pytest.approx(6 * 100_000 * 20 / 0.5)
    assert flop_rate(healthy()) is None


def test_the_dtype_of_products_is_the_trained_models():
    models = (Model(name="Teacher", role="evaluate only"), Model(name="Net", compute="bfloat16"))
    assert (compute_dtype(healthy(models=models)), compute_dtype(healthy(models=()))) == (
        "bf16",
        "fp32",
    )
