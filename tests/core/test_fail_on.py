import pytest

from hotloop.core.errors import UsageError
from hotloop.core.fail_on import ConditionVerdict, exit_code, parse_conditions
from hotloop.core.two_runs import Change

FIGURES = {"step_time": "more", "samples_per_s": "less"}


def test_conditions_are_read():
    step, rate, new = parse_conditions(
        " step_time>+10%  samples_per_s<-7.5% new-findings>=warn", FIGURES
    )
    assert (step.name, step.limit, step.worse) == ("step_time", 0.1, "more")
    assert (rate.name, rate.limit, rate.worse) == ("samples_per_s", 0.075, "less")
    assert rate.most == pytest.approx(1 / 0.925)
    assert (new.name, new.level) == ("new-findings", "warn")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty: expected conditions such as step_time>+10% samples_per_s<-10%"),
        ("step_time", "put quotes around the conditions"),
        ("steptime>+10%", "did you mean step_time? (there are: step_time, samples_per_s, new-fi"),
        ("loss>+10%", "no figure is called 'loss' (there are: step_time, samples_per_s"),
        ("step_time>10%", "gets worse as it grows; expected the change from the baseline in per"),
        ("step_time<-10%", "gets worse as it grows"),
        ("samples_per_s>+10%", "gets worse as it falls"),
        ("step_time>+10", "in percent, as in step_time>+10%"),
        ("step_time>+x%", "in percent, as in step_time>+10%"),
        ("samples_per_s<-100%", "expected below 100%"),
        ("new-findings>=bad", "with one of note, warn, critical"),
        ("new-findings>+1%", "expected new-findings>=warn"),
        ("step_time>+10% ???", "'???': expected a condition such as"),
    ],
)
def test_anything_else_is_refused_with_what_is_known(text, said):
    with pytest.raises(UsageError) as error:
        parse_conditions(text, FIGURES)
    assert said in str(error.value)
    assert error.value.exit_code == 2


def test_new_findings_are_unknown_where_nothing_is_found():
    with pytest.raises(UsageError, match="no figure is called 'new-findings'"):
        parse_conditions("new-findings>=warn", FIGURES, findings=False)


@pytest.mark.parametrize(
    ("ratio", "interval", "outcome"),
    [
        (1.2, (1.1, 1.3), "REGRESSED"),
        (1.2, (1.04, 1.4), "UNKNOWN"),  # the low end is within half of the limit
        (1.08, (1.07, 1.2), "UNKNOWN"),
        (1.05, (1.02, 1.08), "held"),
        (0.8, (0.7, 0.9), "held"),
        (None, None, "UNKNOWN"),
    ],
)
def test_a_change_is_judged_with_its_interval(ratio, interval, outcome):
    (condition,) = parse_conditions("step_time>+10%", FIGURES)
    assert condition.outcome(Change(ratio=ratio, interval=interval)) == outcome


def test_the_exit_code_is_1_for_what_regressed_and_if_asked_for_what_is_unknown():
    regressed, held, unknown = (
        ConditionVerdict(condition="", outcome=outcome, why="")
        for outcome in ("REGRESSED", "held", "UNKNOWN")
    )
    assert exit_code([held, regressed], fails_on_unknown=False) == 1
    assert exit_code([held, unknown], fails_on_unknown=False) is None
    assert exit_code([held, unknown], fails_on_unknown=True) == 1
    assert exit_code([held], fails_on_unknown=True) is None
