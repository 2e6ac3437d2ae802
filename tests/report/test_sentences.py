import math
from dataclasses import replace

import pytest
from tests.golden.cases import healthy, wall
from tests.golden.slow_run import CASE, TOKENIZE, WRONG

from hotloop.core.case.steps_and_loaders import Steps
from hotloop.core.finding import Finding, Remedy
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
)


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


def test_findings_are_counted_by_severity():
    note = Finding(rule="O3 unfused", claim="could be fused", severity="note", share=0.03)
    assert counted([note, note]) == "2 notes"
    assert counted(WRONG.findings) == "2 critical, 1 warning, 1 note"
    assert counted([]) == "no findings"


def test_a_remedy_that_was_tried_is_told_with_its_result():
    tried = Remedy(text="cache", effort="option", tried="tried: 1.9x (1.8-2.0) on 20 steps")
    assert told(tried)[0][0] == "cache (option; tried: 1.9x (1.8-2.0) on 20 steps)"
