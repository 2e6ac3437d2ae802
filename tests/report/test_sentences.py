import math
from dataclasses import replace

import pytest
from tests.golden.cases import healthy, wall
from tests.golden.slow_run import CASE, FINE, SLOW, TOKENIZE, WRONG

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.ledger import Ledger, LedgerRow
from hotloop.core.case.steps_and_loaders import BatchFacts, Steps
from hotloop.core.finding import Finding, Remedy, SourceLocation, ranked
from hotloop.core.measurement import Measurement
from hotloop.report.sentences import (
    command,
    cost,
    counted,
    leading,
    name,
    observed,
    once,
    others,
    pace,
    reading,
    remedies,
    rows,
    verdict,
)


def test_the_verdict_names_what_costs_most_and_what_it_can_give():
    found = verdict(CASE, SLOW)
    assert found.said == (
        "train.py: 70% of the wall time is waiting for data: each sample is tokenised again when "
        "read: fixing it can give at most 3.3x"
    )
    assert found.severity == "critical"
    assert found.also is None


def test_a_claim_without_the_share_gets_it():
    finding = replace(TOKENIZE, claim="Tokenising takes most of the wait.", share=0.70)
    said = verdict(CASE, replace(SLOW, findings=[finding])).said
    assert "takes most of the wait (70% of the wall time): fixing it" in said


def test_a_run_that_is_wrong_is_said_before_its_speed():
    found = verdict(CASE, WRONG)
    assert found.said.startswith("train.py does something else than it says: the scheduler is")
    assert found.also is not None
    assert found.also.startswith("its speed: 70% of the wall time")


def test_a_fault_of_hotloops_own_is_no_good_run():
    fault = "what came after a fault of hotloop's own: TypeError: unhashable"
    said = verdict(healthy(steps=Steps(count=0), not_checked=(fault,)), FINE).said
    assert said == (
        'train.py: hotloop saw a part of the run only (see "not checked"), and found nothing there'
    )


def test_a_good_run_is_told_so_with_its_figure():
    assert verdict(healthy(), FINE).said == "train.py: nothing worth changing: compute takes 85%"
    stopped = healthy(wall=wall(**{"import": 400.0}), stopped="after 1,000 steps")
    assert verdict(stopped, FINE).said == "train.py: nothing worth changing: compute takes 95%"
    evaluating = healthy(wall=wall(evaluate=100.0))
    assert verdict(evaluating, FINE).said.endswith("compute takes 9%, evaluate 90%")
    unseen = healthy(steps=Steps(count=0))
    assert "no optimizer step was seen," in verdict(unseen, FINE).said
    elsewhere = healthy(steps=Steps(count=0, how="another thread"))
    assert "no optimizer step was seen in the main thread," in verdict(elsewhere, FINE).said


def test_a_note_is_no_reason_to_change_anything():
    note = Finding(rule="O3 unfused", claim="could be fused", severity="note", share=0.03)
    assert verdict(healthy(), replace(FINE, findings=[note])).severity is None
    assert counted([note, note]) == "2 notes"
    assert counted(WRONG.findings) == "2 critical, 1 warning, 1 note"
    assert counted([]) == "no findings"


def test_the_time_of_experiments_is_told_apart():
    assert observed(healthy(experiments_time=12.4)).endswith("; experiments took 12.4 s more")
    assert "experiments" not in observed(healthy())


def test_what_was_observed_adds_up():
    said = observed(CASE)
    assert said.startswith("stopped after 120 of 10,000 steps: the step time is stable")
    assert said.endswith("observed 14.9 s of 15.3 s, hotloop's own 0.31 s in no row")
    whole = observed(healthy(steps=Steps(count=1), planned_steps=None))
    assert whole.startswith("ran to its end: 1 step;")


def test_the_speed_has_n_and_spread_or_a_reason():
    assert pace(CASE).startswith("10.6 steps/s (94.7 ms, n=120, spread 2%")
    fast = healthy(steps=Steps(count=40, wall=(1 / 2624,) * 40))
    assert pace(fast).startswith("2,620 steps/s (0.381 ms, n=40")
    assert pace(healthy(steps=Steps(count=0))) == "steps/s unknown: no step was timed"
    assert pace(healthy(steps=Steps(count=1, wall=(0.0,)))).startswith("steps/s unknown")


def test_evidence_names_its_unit_n_and_source():
    assert reading("as it\x1b is") == "as it? is"
    assert reading(Measurement(unit="s", readings=(1.0, 2.0, 3.0))) == "2.00 s, n=3, spread 50%"
    assert reading(Measurement(unit="GB/s", readings=(3.0,), source="derived")) == (
        "3 GB/s, n=1, derived"
    )
    assert reading(Measurement(unit="s", readings=(math.nan,))) == "nan s, n=1"


def test_rows_come_in_the_order_of_a_step_and_new_ones_last():
    case = healthy(wall={"new": 1.0, "save": 1.0, "log": 0.0, "start": 1.0})
    assert list(rows(case)) == ["start", "save", "new"]


@pytest.mark.parametrize(("ceiling", "said"), [(3.14, "at most 3.1x"), (5000.0, "100x and more")])
def test_a_ceiling_is_at_most(ceiling, said):
    assert said in "; ".join(cost(replace(TOKENIZE, ceiling=ceiling)))


def test_a_command_can_be_typed():
    assert command(CASE, "tf32", "my train.py") == "hotloop run --with tf32 'my train.py'"
    module = replace(CASE, script="package.train")
    assert command(module, "tf32", "package.train") == "hotloop run --with tf32 -m package.train"
    assert name(module) == "package.train"
    recorded = replace(CASE, script="hotloop train char-lm", arguments=["data.path=my text.txt"])
    typed = "hotloop train char-lm 'data.path=my text.txt' --with async-checkpoint"
    assert command(recorded, "async-checkpoint", "char-lm") == typed


def test_what_a_stopped_run_does_once_is_in_no_share():
    assert list(once(CASE)) == ["start", "import", "data load"]
    assert sum(rows(CASE).values()) - sum(once(CASE).values()) == pytest.approx(CASE.judged)
    assert once(healthy()) == {}


def told(*all_remedies: Remedy, case=CASE) -> list[tuple[str, str | None]]:
    return list(remedies(case, replace(TOKENIZE, remedies=all_remedies), "train.py"))


def test_a_command_is_told_once_for_each_technique():
    lines = told(*(Remedy(text=text, technique="sample-cache") for text in "ab"), Remedy(text="c"))
    run = "hotloop run --with sample-cache train.py"
    assert [typed for _, typed in lines] == [run, None, None]
    assert lines[2][0] == "c (configuration line; not tried)"


@pytest.mark.parametrize(
    "technique",
    [
        "async-checkpoint",  # for hotloop train alone
        "tf32",  # needs a GPU
        "compile-faster",  # there is none
        "device-prefetch",  # needs a GPU
    ],
)
def test_a_command_that_would_be_refused_is_not_told(technique):
    assert told(Remedy(text="x", technique=technique))[0][1] is None


def test_a_command_that_cannot_gain_anything_is_not_told():
    quick = healthy(wall=wall(data_wait=0.1))
    assert told(Remedy(text="x", technique="sample-cache"), case=quick)[0][1] is None
    assert told(Remedy(text="x", technique="gc-freeze"), case=quick)[0][1] is not None


def test_the_record_of_hotloop_train_is_told_what_that_takes():
    recorded = replace(CASE, script="hotloop train char-lm")
    typed = told(Remedy(text="x", technique="async-checkpoint"), case=recorded)[0][1]
    assert typed == "hotloop train char-lm --with async-checkpoint"


def test_a_remedy_that_was_tried_says_its_result():
    tried = Remedy(text="cache", effort="option", tried="tried: 1.9x (1.8-2.0) on 20 steps")
    assert told(tried)[0][0] == "cache (option; tried: 1.9x (1.8-2.0) on 20 steps)"
    slow = replace(TOKENIZE, remedies=[Remedy(text="x"), tried])
    said = verdict(CASE, replace(SLOW, findings=[slow])).said
    assert said.endswith("again when read: tried: 1.9x (1.8-2.0) on 20 steps")


def test_what_is_of_the_machine_has_no_effort():
    busy = replace(TOKENIZE, kind="machine", remedies=[Remedy(text="wait", effort="option")])
    assert list(remedies(CASE, busy, "train.py")) == [("wait", None)]


def test_three_findings_above_a_note_are_shown_first():
    note = replace(TOKENIZE, severity="note")
    read = replace(TOKENIZE, known="read")
    many = [TOKENIZE, note, read, *[replace(TOKENIZE) for _ in range(3)]]
    assert leading(many) == [TOKENIZE] * 3
    assert others(many) == [note, read, TOKENIZE]
    assert leading([note]) == []


def test_only_a_proved_fault_comes_before_the_largest_cost():
    claim = replace(TOKENIZE, kind="correctness", claim="a printed speed", share=None)
    measured = replace(claim, known="measured", severity="warn")
    said = verdict(CASE, replace(SLOW, findings=ranked([measured, TOKENIZE]))).said
    assert said.startswith("train.py: 70% of the wall time is waiting for data")
    proved = replace(measured, known="proved")
    said = verdict(CASE, replace(SLOW, findings=ranked([proved, TOKENIZE]))).said
    assert said == "train.py does something else than it says: a printed speed"


def test_a_line_that_takes_most_of_the_time_is_told_where_no_experiment_was_made():
    place = SourceLocation(file="/p/model.py", line=53)
    hot = Finding(
        rule="H19 hot_line",
        claim="one line takes 52% of the time",
        severity="note",
        share=0.52,
        places=[place],
    )
    for rule in ("H19 hot_line", "H25 many_calls"):
        found = verdict(healthy(), replace(FINE, findings=[replace(hot, rule=rule)]))
        assert found.said.startswith("train.py: no cost was measured, but one line takes 52%")
    said = verdict(healthy(), replace(FINE, findings=[hot])).said
    assert said.startswith("train.py: no cost was measured, but one line takes 52% of the time")
    assert "model.py:53" in said
    tried = replace(hot, measured="without the line, a step is 1.01x as fast")
    assert "nothing worth" in verdict(healthy(), replace(FINE, findings=[tried])).said


def test_what_was_only_read_or_is_of_the_machine_is_no_verdict():
    read = replace(TOKENIZE, known="read", severity="note")
    busy = replace(TOKENIZE, kind="machine")
    diagnosis = replace(FINE, findings=[read], machine=[busy])
    assert verdict(healthy(), diagnosis).said.startswith("train.py: nothing worth changing")


def with_row(name: str, share: float = 0.4, **result: float):
    """A run of which a row takes 40 %, with an experiment on it if there is a result."""
    case = healthy()
    made = Experiment(name="lines", what="without it", row=name, steps=30, **result)
    ledger = Ledger(rows=(LedgerRow(name=name, seconds=share * case.seconds, avoidable=True),))
    return replace(case, ledger=ledger, experiments=(made,) if result else ())


def test_nothing_is_called_fine_that_was_not_looked_into():
    ledger = Ledger(rows=(), not_split="a step has more than 20,000 operators, too many to record")
    assert verdict(healthy(ledger=ledger), FINE).said == (
        "train.py: no cost was found, but the operators of the steps were not seen: a step has "
        "more than 20,000 operators, too many to record"
    )


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (with_row("dead"), "nothing that the script reads: without it at most 1.7x"),
        (
            with_row("dead", gain=1.5, low=1.4, high=1.6),
            "without it, a step is 1.50x as fast (measured: 1.40-1.60, 30 steps)",
        ),
        (with_row("dead", gain=1.0, low=0.98, high=1.02), "nothing worth changing"),
        (
            with_row("dead", gain=1.0, low=0.8, high=1.4),
            "at most 1.7x (not measured: blocks of steps differ too much (0.80-1.40x))",
        ),
        (
            with_row("dead", why_not="its result is needed", is_needed=True),
            "no experiment came to a result",
        ),
        (
            replace(
                with_row("padding", gain=1.5, low=1.4, high=1.6),
                batches=(BatchFacts(loader=1, lengths=(64,) * 8, padding=0.0),),
            ),
            "nothing worth changing",
        ),
        (with_row("padding"), "positions that no loss depends on"),
        (with_row("padding", share=0.15), "nothing worth changing"),
        (with_row("padding", gain=1.0, low=0.8, high=1.4), "no experiment came to a result"),
        (with_row("padding", gain=1.5, low=1.4, high=1.6), "positions that no loss depends on"),
    ],
)
def test_the_largest_row_leads_unless_an_experiment_refuted_it(case, said: str):
    assert said in verdict(case, FINE).said


def test_an_evaluation_that_was_asked_for_does_not_lead():
    asked = Finding(rule="H9 eval_share", claim="each epoch", severity="note", asked_for=True)
    case = with_row("evaluating")
    assert "goes into evaluation" in verdict(case, FINE).said
    said = verdict(case, replace(FINE, findings=[asked])).said
    assert "goes into evaluation" not in said
