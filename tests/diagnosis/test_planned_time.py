import pytest
from tests.judging import finding, findings

from hotloop.core.measurement import Measurement
from hotloop.rules.diagnose import diagnose


def seconds(value: float) -> Measurement:
    return Measurement(unit="s", readings=(value,))


def test_a_time_limit_before_the_end_of_the_schedule_is_said(case_of):
    assert finding("R7 cut_by_time", case_of()) is None
    assert finding("R7 cut_by_time", case_of("training.max_time=3600s")) is None
    found = finding("R7 cut_by_time", case_of("training.max_time=10s"))
    assert "ends the run after about 22% of its 40 steps" in found.claim
    assert found.rule == "R7 cut_by_time"
    assert found.remedies[0].text == "training.max_steps=8"


@pytest.mark.parametrize(
    ("waits", "severity"), [(0.01, None), (0.08, "note"), (0.15, "warn"), (0.5, "critical")]
)
def test_waiting_for_data_is_judged_by_its_share(case_of, waits, severity):
    found = finding("D1", case_of(timing={"data_wait": waits}))
    assert (found and found.severity) == severity
    if found:
        assert found.saves == pytest.approx(waits)
        assert found.ceiling == pytest.approx(1 / (1 - found.share))
        assert "loader processes would not be faster" in found.evidence["data"]


def test_long_validations_are_said_with_what_would_be_short_enough(case_of):
    assert finding("H9", case_of()) is None
    case = case_of("training.eval_batches=2", timing={"validation": seconds(5.0)})
    found = finding("H9", case)
    assert found.severity == "critical"
    assert found.claim.startswith("4 validations of 10.0 s take 47% of the run")
    assert found.saves == pytest.approx(1.0)
    assert not any("eval_batches" in remedy.text for remedy in found.remedies), "one is too many"


def test_the_advice_on_validations_does_what_it_says(case_of):
    small = ("training.batch_size=1", "training.max_steps=2000")
    for seconds_each, remedies in ((0.5, 2), (5.0, 1)):  # 5 s: one micro batch is too many
        timing = {"validation": seconds(seconds_each)}
        found = finding("H9", case_of(*small, timing=timing))
        assert len(found.remedies) == remedies
        for remedy in found.remedies:
            setting = remedy.text.split()[0]
            share = case_of(*small, setting, timing=timing).planned.time.share("evaluate")
            assert 0.03 <= share <= 0.11, setting


def test_validating_tiny_epochs_is_named_as_the_cause(case_of):
    every = ("training.eval_every_steps=null", "training.eval_every_epochs=1")
    timing = {"step": seconds(0.01), "validation": seconds(0.1), "start": 0.1}
    found = finding("H9", case_of(*every, timing=timing))
    assert found.because
    assert found.because[0].startswith("D26 tiny_epoch")


def test_long_saves_are_said_with_the_technique_that_hides_them(case_of):
    slow = {"save": 5.0, "step": seconds(3.0)}
    found = finding("H8", case_of(timing=slow))
    assert found.rule == "H8 checkpoint"
    assert found.remedies[0].technique == "async-checkpoint"
    assert finding("H8", case_of(timing={"save": 0.01, "step": seconds(3.0)})) is None
    short = {"save": 0.1, "step": seconds(0.01)}
    assert finding("H8", case_of(timing=short)) is None, "a run of seconds"


def test_what_a_crash_can_cost_is_said(case_of):
    hours = {"step": seconds(1000.0)}
    rarely = ("training.save_every=10h", "training.save_every_steps=null")
    found = finding("R9 saves_too_few", case_of(*rarely, timing=hours))
    assert found.rule == "R9 saves_too_few"
    assert found.claim == "a crash can cost 10:00:00: nothing is saved in between"
    never = ("training.save_every=99h", "training.save_every_steps=null")
    assert "the whole run" in finding("R9 saves_too_few", case_of(*never, timing=hours)).claim
    assert finding("R9 saves_too_few", case_of(timing=hours)) is None
    assert finding("R9 saves_too_few", case_of(*never)) is None, "a run of a minute"


def test_a_long_start_is_said(case_of):
    assert finding("H13", case_of(timing={"start": 30.0})).share == pytest.approx(0.43, abs=0.01)
    assert finding("H13", case_of(timing={"start": 5.0, "step": seconds(5.0)})) is None
    assert finding("H13", case_of(timing={"start": 5.0, "step": seconds(0.1)})) is None


def test_a_compilation_says_what_it_must_save(case_of):
    assert finding("G14", case_of()) is None
    found = finding("G14", case_of(timing={"compile": 20.0}))
    assert found.claim.startswith("compiling takes 20.0 s, 31% of the run")
    assert found.claim.endswith("pays back only if it makes a step, now 1.00 s, faster by 500 ms")
    hopeless = finding("G14", case_of(timing={"compile": 50.0}))
    assert hopeless.claim.endswith("cannot pay back in 40 steps of 1.00 s")


def test_nothing_is_said_about_time_that_was_not_measured(case_of):
    case = case_of("training.max_time=1s", timing=None)
    for label in (
        "R7 cut_by_time",
        "D1 data_wait",
        "H9 eval_share",
        "H8 checkpoint",
        "R9 saves_too_few",
        "H13 slow_init",
        "G14 compile_loss",
    ):
        assert findings(label, case) == []


def test_what_is_not_worth_doing_is_said_with_its_ceiling(case_of):
    said = diagnose(case_of(timing={"start": 0.5}), strict=True).not_worth_it
    found = {finding.rule: finding for finding in said}
    assert set(found) == {"D1 data_wait", "H8 checkpoint", "H9 eval_share", "H13 slow_init"}
    assert found["H13 slow_init"].claim.startswith("starting faster saves at most 0.50 s (1.2%)")
    assert 1 < found["H13 slow_init"].ceiling < 1.02
