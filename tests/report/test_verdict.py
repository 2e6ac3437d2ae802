"""The verdict names the largest cost that was measured, and claims nothing else."""

from dataclasses import replace

import pytest
from tests.golden.cases import healthy, wall
from tests.golden.slow_run import CASE, FINE, SLOW, TOKENIZE, WRONG

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.ledger import Ledger, LedgerRow
from hotloop.core.case.steps_and_loaders import BatchFacts, EvaluationSpan, Save, Steps
from hotloop.core.finding import Finding, Remedy, SourceLocation, ranked
from hotloop.report.verdict import verdict_of


def test_the_verdict_names_what_costs_most_and_what_it_can_give():
    found = verdict_of(CASE, SLOW)
    assert found.said == (
        "train.py: 70% of the wall time is waiting for data: each sample is tokenised again when "
        "read: fixing it can give at most 3.3x"
    )
    assert found.severity == "critical"
    assert found.also is None


def test_a_claim_without_the_share_gets_it():
    finding = replace(TOKENIZE, claim="Tokenising takes most of the wait.", share=0.70)
    said = verdict_of(CASE, replace(SLOW, findings=[finding])).said
    assert "takes most of the wait (70% of the wall time): fixing it" in said


def test_a_run_that_is_wrong_is_said_before_its_speed():
    found = verdict_of(CASE, WRONG)
    assert found.said.startswith("train.py does something else than it says: the scheduler is")
    assert found.also is not None
    assert found.also.startswith("its speed: 70% of the wall time")


def test_a_fault_of_hotloops_own_is_no_good_run():
    fault = "what came after a fault of hotloop's own: TypeError: unhashable"
    said = verdict_of(healthy(steps=Steps(count=0), not_checked=(fault,)), FINE).said
    assert said == (
        'train.py: hotloop saw a part of the run only (see "not checked"), and found nothing there'
    )


def test_a_good_run_is_told_so_with_its_figure():
    assert verdict_of(healthy(), FINE).said == "train.py: nothing worth changing: compute takes 85%"
    stopped = healthy(wall=wall(**{"import": 400.0}), stopped="after 1,000 steps")
    assert verdict_of(stopped, FINE).said == "train.py: nothing worth changing: compute takes 95%"
    evaluating = healthy(wall=wall(evaluate=100.0))
    assert verdict_of(evaluating, FINE).said.endswith("compute takes 9%, evaluate 90%")
    unseen = healthy(steps=Steps(count=0))
    assert "no optimizer step was seen," in verdict_of(unseen, FINE).said
    elsewhere = healthy(steps=Steps(count=0, how="another thread"))
    assert "no optimizer step was seen in the main thread," in verdict_of(elsewhere, FINE).said


def test_a_note_is_no_reason_to_change_anything():
    note = Finding(rule="O3 unfused", claim="could be fused", severity="note", share=0.03)
    assert verdict_of(healthy(), replace(FINE, findings=[note])).severity is None


def test_a_remedy_that_was_tried_says_its_result():
    tried = Remedy(text="cache", effort="option", tried="tried: 1.9x (1.8-2.0) on 20 steps")
    slow = replace(TOKENIZE, remedies=[Remedy(text="x"), tried])
    said = verdict_of(CASE, replace(SLOW, findings=[slow])).said
    assert said.endswith("again when read: tried: 1.9x (1.8-2.0) on 20 steps")


def test_only_a_proved_fault_comes_before_the_largest_cost():
    claim = replace(TOKENIZE, kind="correctness", claim="a printed speed", share=None)
    measured = replace(claim, known="measured", severity="warn")
    said = verdict_of(CASE, replace(SLOW, findings=ranked([measured, TOKENIZE]))).said
    assert said.startswith("train.py: 70% of the wall time is waiting for data")
    proved = replace(measured, known="proved")
    said = verdict_of(CASE, replace(SLOW, findings=ranked([proved, TOKENIZE]))).said
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
        found = verdict_of(healthy(), replace(FINE, findings=[replace(hot, rule=rule)]))
        assert found.said.startswith("train.py: no cost was measured, but one line takes 52%")
    said = verdict_of(healthy(), replace(FINE, findings=[hot])).said
    assert said.startswith("train.py: no cost was measured, but one line takes 52% of the time")
    assert "model.py:53" in said
    tried = replace(hot, measured="without the line, a step is 1.01x as fast")
    assert "nothing worth" in verdict_of(healthy(), replace(FINE, findings=[tried])).said


def test_what_was_only_read_or_is_of_the_machine_is_no_verdict():
    read = replace(TOKENIZE, known="read", severity="note")
    busy = replace(TOKENIZE, kind="machine")
    diagnosis = replace(FINE, findings=[read], machine=[busy])
    assert verdict_of(healthy(), diagnosis).said.startswith("train.py: nothing worth changing")


def with_row(name: str, share: float = 0.4, **result: float):
    """A run of which a row takes 40 %, with an experiment on it if there is a result."""
    case = healthy()
    made = Experiment(name="lines", what="without it", row=name, steps=30, **result)
    ledger = Ledger(rows=(LedgerRow(name=name, seconds=share * case.seconds, avoidable=True),))
    return replace(case, ledger=ledger, experiments=(made,) if result else ())


def test_nothing_is_called_fine_that_was_not_looked_into():
    ledger = Ledger(rows=(), not_split="a step has more than 20,000 operators, too many to record")
    assert verdict_of(healthy(ledger=ledger), FINE).said == (
        "train.py: no cost was found, but the operators of the steps were not seen: a step has "
        "more than 20,000 operators, too many to record"
    )


OPEN = "no cost was measured, but 40% of the wall time goes into"


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (with_row("dead"), f"{OPEN} results that reach no loss, no weight and nothing that"),
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
        (with_row("padding"), f"{OPEN} positions that no loss depends on"),
        (with_row("padding", share=0.05), "nothing worth changing"),
        (with_row("padding", gain=1.0, low=0.8, high=1.4), f"{OPEN} positions"),
        (with_row("padding", gain=1.5, low=1.4, high=1.6), "time goes into positions"),
        (with_row("saving"), "train.py: 40% of the wall time goes into saving"),
    ],
)
def test_the_largest_row_leads_unless_an_experiment_refuted_it(case, said: str):
    assert said in verdict_of(case, FINE).said


def test_an_evaluation_that_was_asked_for_does_not_lead():
    asked = Finding(rule="H9 eval_share", claim="each epoch", severity="note", asked_for=True)
    case = with_row("evaluating")
    assert "goes into evaluation" in verdict_of(case, FINE).said
    said = verdict_of(case, replace(FINE, findings=[asked])).said
    assert "goes into evaluation" not in said


@pytest.mark.parametrize(("row", "word"), [("evaluating", "evaluation"), ("saving", "saving")])
def test_what_came_once_before_the_run_was_stopped_does_not_lead(row, word):
    evaluations = (EvaluationSpan(at=1.0, seconds=9.0, step=1, batches=4),)
    saves = (Save(at=1.0, seconds=9.0, step=1, bytes=None, path="last.pt"),)
    stopped = replace(with_row(row), stopped="steady", evaluations=evaluations, saves=saves)
    assert f"goes into {word}" in verdict_of(replace(stopped, stopped=None), FINE).said
    assert f"goes into {word}" not in verdict_of(stopped, FINE).said


def test_an_evaluation_whose_interval_is_unknown_is_told_with_its_bounds():
    bounds = "an evaluation takes 26 s; how often one comes was not seen: between 20% and 79%"
    found = Finding(rule="H9 eval_share", claim=bounds, severity="note")
    said = verdict_of(healthy(), replace(FINE, findings=[found])).said
    assert said == f"train.py: no cost was measured, but {bounds}: look at it"
