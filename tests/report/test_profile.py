from dataclasses import replace

from tests.golden.cases import healthy
from tests.golden.slow_run import CASE, CEILINGS, OPERATORS

from hotloop.report.profile import ceiling_in_words, ceilings, operators, operators_by_time


def test_the_hottest_operator_is_first_and_ten_are_enough():
    many = tuple(replace(OPERATORS[0], seconds=n / 1000) for n in range(20))
    shown = operators_by_time(replace(CASE, operators=many))
    assert [each.seconds for each in shown] == [n / 1000 for n in range(19, 9, -1)]
    made = operators(CASE)
    assert "8.1 ms, 41.0%" in made
    assert "reviews/model.py:31" in made


def test_a_ceiling_is_a_factor_with_its_readings_or_a_reason():
    baseline, compute, _, failed = map(ceiling_in_words, CEILINGS)
    assert baseline == "94.9 ms, n=5, spread 0%"
    assert compute.startswith("at most 3.13x; 30.3 ms, n=5")
    assert failed == "not measured: the child run was killed after 30 s"
    assert "compute alone: batches replayed, none loaded" in ceilings(CASE)


def test_what_was_not_measured_says_how_it_would_be():
    assert "hotloop doctor --profile" in operators(healthy())
    assert "hotloop doctor --ceilings" in ceilings(healthy())
