"""Findings with the results of their experiments."""

from dataclasses import replace

import pytest
from tests.golden.cases import healthy

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.experiment import Experiment
from hotloop.core.case.rewrite import Rewrite
from hotloop.core.finding import Finding, Remedy, SourceLocation
from hotloop.rules import ALL
from hotloop.rules.tried import in_words, of_row, of_technique, share_of_run, with_results

PLACE = SourceLocation(file="/p/train.py", line=7)
GAIN = Experiment(
    name="lines", what="without the line", places=(PLACE,), steps=40, gain=2.0, low=1.9, high=2.1
)
HOT = Finding(
    rule="H19 hot_line",
    claim="one line takes 60% of the time",
    kind="speed",
    known="measured",
    severity="critical",
    share=0.6,
    ceiling=2.5,
    places=[PLACE],
)


RULES = {rule.id: rule for rule in ALL}


def results(finding: Finding, *experiments: Experiment):
    case = replace(healthy(), experiments=experiments)
    return with_results(case, [finding], RULES)


def test_a_gain_takes_the_place_of_an_upper_bound():
    ((finding,), refuted) = results(HOT, GAIN)
    assert refuted == []
    assert "2.00x as fast (measured: 1.90-2.10, 40 steps)" in (finding.measured or "")
    assert finding.share == pytest.approx(share_of_run(healthy(), GAIN))
    assert finding.known == "measured"


THREADS = Experiment(name="threads", what="with 2 threads", count=2, blocks=6, steps=40)
MANY_THREADS = Finding(
    rule="D9 thread_oversub",
    claim="8 threads compute on 2 cores",
    kind="speed",
    known="proved",
    severity="critical",
    remedies=[Remedy(text="no more threads than there are cores", technique="threads")],
)


def at(count: int, gain: float, low: float, high: float) -> Experiment:
    what = f"with {count} threads"
    return replace(THREADS, what=what, count=count, gain=gain, low=low, high=high)


def test_of_several_numbers_of_threads_the_best_tells():
    small, best = at(2, 1.2, 1.1, 1.3), at(1, 2.9, 2.4, 3.3)
    for experiments in ((small, best), (best, small)):
        ((finding,), _) = results(MANY_THREADS, *experiments)
        assert "with 1 threads, a step is 2.90x" in (finding.measured or "")
        case = replace(healthy(), experiments=experiments)
        assert of_technique(case, "threads") == best


def test_a_choice_that_gains_nothing_refutes_only_itself():
    none, unknown = at(2, 0.98, 0.95, 1.01), at(1, 1.2, 0.8, 1.9)
    ((finding,), refuted) = results(MANY_THREADS, none, unknown)
    assert (finding.severity, refuted) == ("note", [])
    assert of_technique(replace(healthy(), experiments=(none, unknown)), "threads") == unknown
    findings, (refuted,) = results(MANY_THREADS, none, replace(none, count=1))
    assert (findings, refuted.severity) == ([], "note")


def test_the_remedy_names_the_number_of_threads_that_was_fastest():
    crowded = replace(healthy(), process=ProcessFacts(threads=8))
    judge = RULES["D9"].judge
    for experiments, count in (((), 2), ((at(2, 1.2, 1.1, 1.3), at(1, 2.9, 2.4, 3.3)), 1)):
        finding = judge(replace(crowded, experiments=experiments))
        assert f"torch.set_num_threads({count})" in finding.remedies[-1].text


def test_a_proof_makes_a_finding_proved():
    ((finding,), _) = results(HOT, replace(GAIN, proof="with NaN in its place"))
    assert finding.known == "proved"


def test_a_cost_that_is_none_is_refuted():
    findings, (refuted,) = results(HOT, replace(GAIN, gain=1.01, low=0.98, high=1.02))
    assert findings == []
    assert (refuted.rule, refuted.severity) == ("H19 hot_line", "note")
    assert "1.01x" in (refuted.measured or "")


def test_blocks_that_differ_too_much_refute_nothing():
    unsteady = replace(GAIN, gain=1.01, low=0.82, high=1.38)
    ((finding,), refuted) = results(replace(HOT, rule="D13 tokenize_hot"), unsteady)
    assert refuted == []
    assert (finding.severity, finding.measured) == ("critical", None)
    assert in_words(healthy(), unsteady) == (
        "not measured: blocks of steps differ too much (0.82-1.38x)"
    )


def test_a_cost_that_only_an_experiment_tells_is_a_note_without_one():
    ((finding,), _) = results(HOT)
    assert finding.severity == "note"
    ((finding,), _) = results(replace(HOT, rule="D13 tokenize_hot"))
    assert finding.severity == "critical"  # seconds of a row that can be avoided as such


CUT = Experiment(name="cut rows", what="with batches of rows of similar length", row="padding")
PADDED = replace(HOT, rule="D22 pad_waste", places=[])


@pytest.mark.parametrize(
    ("made", "severity"),
    [
        (replace(CUT, why_not="the model does not take such inputs", is_refused=True), "note"),
        (replace(CUT, blocks=2, gain=1.01, low=0.82, high=1.38), "note"),
        (replace(CUT, why_not="its time was over"), "critical"),
        (replace(CUT, blocks=2, gain=1.5, low=1.4, high=1.6), "critical"),
    ],
)
def test_a_finding_whose_own_experiment_showed_nothing_is_a_note(made, severity):
    ((finding,), refuted) = results(PADDED, made)
    assert refuted == []
    assert finding.severity == severity


def test_one_call_in_place_of_many_takes_more_than_the_forward_passes():
    kept = replace(GAIN, name="kept calls", gain=1.6, low=1.55, high=1.65)
    repeated = replace(HOT, rule="P3 wasted_compute", severity="note", share=0.03)
    ((finding,), _) = results(repeated, kept)
    assert finding.share == pytest.approx(share_of_run(healthy(), kept), rel=0.1)
    assert finding.severity == "critical"


def test_an_experiment_on_another_line_says_nothing():
    other = replace(GAIN, places=(replace(PLACE, line=8),))
    ((finding,), _) = results(replace(HOT, rule="H17 metrics_cpu"), other)
    assert finding.measured is None


def test_the_row_of_the_umbrella_is_taken_for_a_cause_below_it():
    ready = Experiment(
        name="ready batches", what="with batches that lie ready", row="waiting for data", steps=9
    )
    ready = replace(ready, gain=3.0, low=2.8, high=3.1)
    ((finding,), _) = results(replace(HOT, rule="D14 collate_hot"), ready)
    assert "with batches that lie ready" in (finding.measured or "")


def test_samples_that_lie_ready_stand_for_a_cost_of_samples():
    ready = replace(GAIN, name="ready batches", row="waiting for data", places=(), gain=6.0)
    samples = replace(GAIN, name="ready samples", what="with samples that lie ready", places=())
    ((finding,), _) = results(replace(HOT, rule="D13 tokenize_hot"), ready, samples)
    assert "with samples that lie ready" in (finding.measured or "")


def test_a_switch_gains_what_is_certain_and_is_told_at_its_remedy():
    fused = replace(GAIN, name="fused optimizer", places=(), gain=1.3, low=1.0, high=1.5)
    remedies = [Remedy(text="one kernel", technique="fused-adamw"), Remedy(text="another")]
    finding = replace(HOT, rule="G7 opt_unfused", remedies=remedies)
    ((finding,), _) = results(finding, fused)
    assert (finding.severity, finding.share) == ("note", 0.0)
    assert [remedy.tried is not None for remedy in finding.remedies] == [True, False]


def test_blocks_that_are_slower_in_spite_of_a_gain_show_nothing():
    unsteady = replace(GAIN, gain=1.79, low=0.77, high=2.81)
    assert unsteady.outcome == "unknown"
    ((finding,), _) = results(replace(HOT, rule="H17 metrics_cpu"), unsteady)
    assert finding.measured is None


def test_what_takes_a_whole_evaluation_away_is_no_measure_of_a_part_without_share():
    evaluating = replace(GAIN, row="evaluating", places=())
    note = replace(HOT, rule="H10 eval_with_grad", share=None, severity="note", places=())
    ((finding,), _) = results(note, evaluating)
    assert (finding.severity, finding.measured) == ("note", None)


def test_what_was_not_measured_says_why():
    assert in_words(healthy(), replace(GAIN, gain=None, why_not="the script ended")) == (
        "not measured: the script ended"
    )


PAIRS = Rewrite(
    kind="contraction",
    shapes=((1, 9, 4), (9, 1, 4)),
    needs_grad=(True, True),
    dtypes=("float32",),
    places=(PLACE,),
)
OTHER = replace(
    GAIN, name="contraction", what="with a matrix product", rewrites=(PAIRS,), gain=2.0, low=1.6
)
BROADCAST = replace(HOT, rule="G36 broadcast_sum")


def test_another_form_gains_what_is_certain_and_no_more_than_its_operators_took():
    ((finding,), _) = results(BROADCAST, OTHER)
    assert finding.share == pytest.approx(0.375)
    assert finding.severity == "critical"
    assert "both forms timed between 40 steps" in (finding.measured or "")
    ((finding,), _) = results(replace(BROADCAST, share=0.05), OTHER)
    assert (finding.share, finding.severity) == (0.05, "note")


def test_another_form_that_is_no_faster_refutes_its_finding_and_is_a_note_untried():
    findings, (refuted,) = results(BROADCAST, replace(OTHER, gain=1.01, low=0.9, high=1.04))
    assert (findings, refuted.severity) == ([], "note")
    ((finding,), _) = results(BROADCAST)
    assert finding.severity == "note"


BATCHES = Experiment(
    name="ready batches",
    what="with batches that lie ready",
    row="waiting for data",
    steps=40,
    gain=8.0,
    low=7.0,
    high=9.0,
)
CACHE = Remedy(text="keep each sample in memory once it was read", technique="sample-cache")
WORKERS = Remedy(text="DataLoader(..., num_workers=1, persistent_workers=True)")
READ = Remedy(text="look at the page")
WAIT = replace(HOT, rule="D28 slow_getitem", remedies=[READ, WORKERS, CACHE], places=[])


def test_of_a_wait_for_data_the_remedies_that_were_tried_lead():
    samples = replace(BATCHES, name="ready samples", row=None, gain=2.0, low=1.9, high=2.1)
    worker = replace(samples, name="worker process", gain=1.5, low=1.4, high=1.6)
    ((finding,), _) = results(WAIT, BATCHES, samples, worker)
    assert "2.00x" in (finding.measured or "")
    assert [remedy.text for remedy in finding.remedies] == [CACHE.text, WORKERS.text, READ.text]
    assert "2.00x" in (finding.remedies[0].tried or "")
    assert "1.50x" in (finding.remedies[1].tried or "")


def test_a_remedy_that_gains_nothing_here_is_left_out():
    worker = replace(BATCHES, name="worker process", row=None, gain=0.9, low=0.88, high=0.95)
    ((finding,), _) = results(WAIT, BATCHES, worker)
    assert [remedy.text for remedy in finding.remedies] == [READ.text, CACHE.text]
    assert of_row(replace(healthy(), experiments=(BATCHES, worker)), "waiting for data") == BATCHES


def test_arrays_made_of_lists_tell_nothing_of_other_findings_at_their_lines():
    lists = Experiment(
        name="converted lists", what="", places=(PLACE,), gain=1.8, low=1.7, high=1.9, blocks=12
    )
    other = Finding(
        rule="H18 after_step", claim="", severity="warn", share=0.2, known="read", places=[PLACE]
    )
    own = replace(other, rule="H26 list_conversion")
    assert results(other, lists)[0][0].measured is None
    assert results(own, lists)[0][0].known == "measured"
