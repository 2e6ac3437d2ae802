import json
from dataclasses import replace

import pytest
from tests.golden.cases import healthy, planned

from hotloop.core.finding import Finding, Remedy, SourceLocation
from hotloop.rules.base import Needs, Rule
from hotloop.rules.diagnose import diagnose

HERE, THERE = SourceLocation(file="train.py", line=3), SourceLocation(file="train.py", line=9)


def rule(label: str, finding: dict | None, runs: str = "observed", **said) -> Rule:
    """A rule that always says the same of `runs`: observed, planned, or both."""
    identity, name = label.split()

    def judge(*_):
        return None if finding is None else Finding(rule=label, **{"severity": "warn", **finding})

    judges = {"judge": runs != "planned", "before_run": runs != "observed"}
    said |= {field: judge for field, does in judges.items() if does}
    return Rule(id=identity, name=name, title=name, page="", **said)


def data_wait(**said) -> Rule:
    finding = {"claim": "80% waits", "share": 0.8, "severity": "critical", **said}
    return rule("D1 data_wait", finding, weight=0)


def labels(diagnosis) -> list[str]:
    return [finding.rule for finding in diagnosis.findings]


def test_a_run_without_fault_has_no_findings():
    said = diagnose(healthy(), rules=[rule("D1 data_wait", None)])
    assert (said.findings, said.not_worth_it, said.not_checked) == ([], [], [])
    assert said.steps == 1000
    assert said.wall["backward"] == 6.0
    assert said.unstable is None


def test_findings_of_one_cause_are_one_led_by_what_is_nearest_to_it():
    wait = data_wait(remedies=[Remedy(text="workers"), Remedy(text="smaller files")])
    decode = rule(
        "D13 tokenize_hot",
        {
            "claim": "tokenising",
            "share": 0.7,
            "places": [THERE],
            "remedies": [Remedy(text="do it once"), Remedy(text="workers")],
        },
        under="D1",
        weight=3,
    )
    setting = rule(
        "D2 workers0", {"claim": "no workers", "share": 0.75, "places": [HERE]}, under="D1"
    )
    (found,) = diagnose(healthy(), rules=[wait, setting, decode]).findings
    assert found.rule == "D13 tokenize_hot"
    assert (found.share, found.part) == (0.75, 0.7)  # its remedies are of both
    assert found.places == [THERE, HERE]
    assert found.because == ["D2 workers0: no workers", "D1 data_wait: 80% waits"]
    assert [remedy.text for remedy in found.remedies] == ["do it once", "workers", "smaller files"]


def test_a_sub_rule_with_less_than_half_of_the_seconds_is_evidence_and_lends_its_place():
    small = {"claim": "parsing JSON", "share": 0.3, "places": [HERE]}
    sub = rule("D13 tokenize_hot", small, under="D1", weight=3)
    (found,) = diagnose(healthy(), rules=[data_wait(), sub]).findings
    assert (found.rule, found.share, found.severity) == ("D1 data_wait", 0.8, "critical")
    assert found.places == [HERE]
    assert found.because == ["D13 tokenize_hot: parsing JSON"]


def test_an_umbrella_may_stand_under_another():
    wall = rule("S3 hidden_wall", {"claim": "outside", "share": 0.5}, weight=0)
    share = rule("H9 eval_share", {"claim": "evaluating", "share": 0.4}, under="S3", weight=1)
    grad = rule("H10 eval_with_grad", {"claim": "grad", "share": 0.3}, under="H9", weight=2)
    (found,) = diagnose(healthy(), rules=[wall, share, grad]).findings
    assert found.rule == "H10 eval_with_grad"
    assert found.because == ["H9 eval_share: evaluating", "S3 hidden_wall: outside"]


def test_a_note_never_leads_over_what_costs_more():
    small = rule("H8 checkpoint", {"claim": "a", "share": 0.03, "severity": "note"}, weight=3)
    large = rule("H9 eval_share", {"claim": "b", "share": 0.4}, weight=1)
    small, large = (replace(each, under="S3") for each in (small, large))
    assert labels(diagnose(healthy(), rules=[small, large])) == ["H9 eval_share"]


def test_correctness_is_never_swallowed_by_speed():
    wrong = rule(
        "X1 repeated_data",
        {"claim": "rows twice"},
        under="D1",
        weight=3,
        kind="correctness",
        known="proved",
    )
    slow = data_wait()
    assert labels(diagnose(healthy(), rules=[slow, wrong])) == ["X1 repeated_data", "D1 data_wait"]


def test_correctness_of_one_cause_keeps_the_gravest_severity():
    first = rule("P1 trainable_set", {"claim": "a", "severity": "critical"}, weight=0)
    second = rule("P2 dead_parameters", {"claim": "b"}, under="P1", weight=2)
    (found,) = diagnose(healthy(), rules=[first, second]).findings
    assert (found.rule, found.severity) == ("P2 dead_parameters", "critical")


def test_what_is_not_worth_it_stands_apart_and_is_not_merged():
    aside = {"claim": "workers would make it slower", "severity": "note", "share": 0.0}
    harmful = rule("D3 workers_harmful", aside, under="D1", weight=3, kind="not worth it")
    said = diagnose(healthy(), rules=[data_wait(), harmful])
    assert labels(said) == ["D1 data_wait"]
    assert [finding.rule for finding in said.not_worth_it] == ["D3 workers_harmful"]
    assert said.findings[0].because == ()


def test_what_is_of_the_machine_stands_apart_and_is_not_merged():
    busy = rule("H12 cpu_starved", {"claim": "others compute"}, kind="machine")
    said = diagnose(healthy(), rules=[data_wait(), busy])
    assert labels(said) == ["D1 data_wait"]
    assert [finding.rule for finding in said.machine] == ["H12 cpu_starved"]


def test_what_was_only_read_becomes_a_note_and_leads_nothing_that_was_measured():
    read = {"claim": "no workers in the code", "share": 0.8, "severity": "critical"}
    line = rule("D13 tokenize_hot", {**read, "known": "read"}, under="D1", weight=3)
    wait = data_wait(share=0.3)
    (found,) = diagnose(healthy(), rules=[wait, line]).findings
    assert (found.rule, found.known, found.severity) == ("D1 data_wait", "measured", "critical")
    assert found.because == ["D13 tokenize_hot: no workers in the code"]
    (alone,) = diagnose(healthy(), rules=[line]).findings
    assert (alone.rule, alone.known, alone.severity) == ("D13 tokenize_hot", "read", "note")


def test_a_fault_that_was_not_proved_is_ranked_by_its_cost():
    said = {"claim": "printed twice as fast", "severity": "warn"}
    claim = rule("A1 claims", said, kind="correctness")
    assert labels(diagnose(healthy(), rules=[claim, data_wait()])) == ["D1 data_wait", "A1 claims"]
    proved = replace(claim, known="proved")
    assert labels(diagnose(healthy(), rules=[proved, data_wait()])) == ["A1 claims", "D1 data_wait"]


def test_rules_that_cannot_judge_are_named_by_their_reason_in_one_sentence():
    gpu = [rule(f"G{n} GPU", {"claim": "x"}, needs=(Needs.GPU,)) for n in (1, 3)]
    config = rule("C1 unread_key", {"claim": "x"}, needs=(Needs.CONFIG,))
    case = healthy(not_checked=("the script's children were not watched",))
    assert diagnose(case, rules=[*gpu, config]).not_checked == [
        "needs a CUDA GPU: G1, G3",
        "the script's children were not watched",
    ]


def test_what_a_stopped_run_did_not_reach_is_said():
    saves = rule("H8 checkpoint", {"claim": "x"}, needs=(Needs.SAVES,))
    assert diagnose(healthy(), rules=[saves]).not_checked == []
    stopped = diagnose(healthy(stopped="enough steps were seen"), rules=[saves])
    assert stopped.not_checked == ["nothing was saved while it was observed: H8"]


def test_a_rule_that_raises_loses_only_itself():
    def judge(case):
        raise ZeroDivisionError

    broken = Rule(id="H5", name="broken", title="", page="", judge=judge)
    said = diagnose(healthy(), rules=[broken, data_wait()])
    assert labels(said) == ["D1 data_wait"]
    assert said.not_checked == ["H5 broken failed with ZeroDivisionError: please report it"]
    with pytest.raises(ZeroDivisionError):
        diagnose(healthy(), rules=[broken], strict=True)


def test_an_unsteady_step_time_is_said_first():
    case = healthy()
    noisy = replace(case.steps, wall=(0.01, 0.05) * 500)
    said = diagnose(replace(case, steps=noisy), rules=[])
    assert said.unstable is not None
    assert "spread" in said.unstable
    assert json.loads(json.dumps(said.to_json()))["unstable"] == said.unstable


def test_the_healthy_run_passes_all_rules():
    said = diagnose(healthy(), strict=True)
    assert said.findings == []


def test_a_planned_run_is_judged_by_the_rules_that_judge_one():
    before = rule("R9 saves_too_few", {"claim": "a"}, "planned")
    too = rule("D1 data_wait", {"claim": "b"}, "both", needs=(Needs.STEPS,))
    observed = rule("D9 thread_oversub", {"claim": "c"})
    case = replace(planned(), not_checked=("d",))
    said = diagnose(case, rules=[before, too, observed])
    assert sorted(labels(said)) == ["D1 data_wait", "R9 saves_too_few"]
    assert said.not_checked == ["d"]
    said = diagnose(healthy(), rules=[before, too, observed])
    assert sorted(labels(said)) == ["D1 data_wait", "D9 thread_oversub"]
    assert said.not_checked == []


def test_several_findings_of_one_rule_stay_apart_and_what_would_not_pay_stands_aside():
    def judge(case, planned):
        for claim, kind in (("one", None), ("other", None), ("little", "not worth it")):
            yield Finding(rule="X5 dropped_rows", claim=claim, severity="warn", kind=kind)

    several = Rule(
        id="X5", name="dropped_rows", title="x", page="", before_run=judge,
        kind="correctness",
    )  # fmt: skip
    said = diagnose(planned(), rules=[several], strict=True)
    assert [(f.claim, f.kind) for f in said.findings] == [
        ("one", "correctness"),
        ("other", "correctness"),
    ]
    assert [finding.claim for finding in said.not_worth_it] == ["little"]
