import json

import pytest

from hotloop.core.finding import Diagnosis, Finding, Remedy, SourceLocation, by_share, ranked
from hotloop.core.measurement import Measurement

STEP = Measurement(unit="s", readings=(0.1, 0.2, 0.3))


def finding(rule: str = "H8 checkpoint", severity: str = "warn", **said) -> Finding:
    return Finding(rule=rule, claim="saves are slow", severity=severity, **said)


def test_a_finding_is_written_as_the_architecture_says():
    found = finding(
        kind="speed",
        known="measured",
        share=0.25,
        saves=0.05,
        ceiling=1.33,
        places=[SourceLocation(file="train.py", line=7)],
        evidence={"step time": STEP, "disk": "a network drive"},
        because=["S4 saves_too_many: 40 of them"],
        remedies=[
            Remedy(text="save less", effort="code edit"),
            Remedy(text="--with async-checkpoint", effort="option", technique="async-checkpoint"),
        ],
    )
    assert json.loads(json.dumps(found.to_json())) == {
        "rule": "H8 checkpoint",
        "kind": "speed",
        "known": "measured",
        "claim": "saves are slow",
        "severity": "warn",
        "share": 0.25,
        "part": None,
        "saves": 0.05,
        "ceiling": 1.33,
        "asked_for": False,
        "measured": None,
        "effort": "option",
        "places": [{"file": "train.py", "line": 7}],
        "evidence": {"step time": STEP.to_json(), "disk": "a network drive"},
        "because": ["S4 saves_too_many: 40 of them"],
        "remedies": [
            {
                "text": "save less",
                "effort": "code edit",
                "technique": None,
                "choice": "",
                "tried": None,
            },
            {
                "text": "--with async-checkpoint",
                "effort": "option",
                "technique": "async-checkpoint",
                "choice": "",
                "tried": None,
            },
        ],
    }


def test_findings_json_has_the_keys_of_the_architecture():
    found = Diagnosis(
        findings=[finding()],
        wall={"step": 2.0},
        steps=20,
        step_time=STEP,
        not_worth_it=[finding("D1 data_wait", "note")],
        machine=[finding("H12 cpu_starved")],
        not_checked=["heat"],
        own_time=0.5,
    )
    written = json.loads(json.dumps(found.to_json()))
    assert (written["schema"], written["steps"], written["own_time"]) == (1, 20, 0.5)
    assert written["wall"] == {"step": 2.0}
    assert written["step_time"] == STEP.to_json()
    assert [entry["rule"] for entry in written["findings"]] == ["H8 checkpoint"]
    assert [entry["rule"] for entry in written["not_worth_it"]] == ["D1 data_wait"]
    assert [entry["rule"] for entry in written["machine"]] == ["H12 cpu_starved"]
    assert written["not_checked"] == ["heat"]


def test_the_effort_is_that_of_the_easiest_remedy():
    assert finding().effort is None
    assert finding(remedies=[Remedy(text="x")]).effort == "configuration line"
    both = [Remedy(text="x", effort="code edit"), Remedy(text="y")]
    assert finding(remedies=both).effort == "configuration line"


@pytest.mark.parametrize("rule", ["H8", "checkpoint", "h8 checkpoint", "H8 Checkpoint", "H8  a"])
def test_a_rule_has_an_id_and_a_name(rule):
    with pytest.raises(AssertionError):
        finding(rule)


def test_correctness_comes_first_then_seconds_and_notes_last():
    small, large = finding(share=0.1), finding("D1 data_wait", "critical", share=0.4)
    wrong = finding("D25 iterable_dup", kind="correctness")
    aside = finding("X5 dropped_rows", "note", kind="correctness")
    memory = finding("G16 near_oom", "critical")
    order = [wrong, memory, large, small, aside]
    assert ranked(reversed(order)) == order


def test_severity_follows_the_share_of_the_wall_time():
    assert [by_share(share) for share in (0.05, 0.1, 0.19, 0.2)] == [
        "note",
        "warn",
        "warn",
        "critical",
    ]
