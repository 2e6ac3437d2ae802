import math
import random

import pytest

from hotloop.core.two_runs import (
    MachineDrift,
    change_of_counts,
    change_of_steps,
    change_of_values,
    load_bound,
)


def run(seed: int, middle: float, *, n: int = 200, apart: float = 0.0, spread: float = 0.1):
    """Return steps of a run whose process is off by a draw of `apart`, each by one of `spread`."""
    draw = random.Random(seed)
    middle *= math.exp(draw.gauss(0, apart))
    return {number: middle * math.exp(draw.gauss(0, spread)) for number in range(2, 2 + n)}


def test_equal_runs_are_rarely_told_apart_however_many_steps_they_have():
    # Of a pair of runs the logarithm of the ratio has the deviation 0.082, that of a run 0.058.
    told = [
        change_of_steps([run(2 * s, 1.0, apart=0.058)], run(2 * s + 1, 1.0, apart=0.058)).verdict()
        for s in range(200)
    ]
    assert told.count("SLOWER") + told.count("FASTER") <= 10  # 5 % of 200


def test_a_clear_change_is_told_in_both_directions():
    before = run(1, 1.0)
    assert change_of_steps([before], run(2, 1.5)).verdict() == "SLOWER"
    assert change_of_steps([before], run(2, 0.66)).verdict() == "FASTER"
    change = change_of_steps([before], run(2, 1.5))
    assert change.ratio == pytest.approx(1.5, rel=0.03)
    assert change.interval[0] < 1.5 < change.interval[1]


def test_several_baselines_narrow_the_interval_unless_they_differ():
    now = run(9, 1.0)
    alone = change_of_steps([run(1, 1.0)], now).interval
    alike = change_of_steps([run(n, 1.0) for n in range(4)], now).interval
    apart = change_of_steps([run(n, 1.0 + 0.3 * (n % 2)) for n in range(4)], now).interval
    assert alone[0] < alike[0]
    assert alike[1] < alone[1]
    assert apart[1] / apart[0] > alike[1] / alike[0]


def test_only_steps_of_the_same_number_are_compared():
    before = dict.fromkeys(range(2, 42), 1.0)
    longer = before | dict.fromkeys(range(42, 400), 5.0)  # later steps are slower in both
    assert change_of_steps([before], longer).ratio == pytest.approx(1.0)
    few = dict.fromkeys(range(2, 9), 1.0)
    change = change_of_steps([before], few)
    assert (change.verdict(), change.interval) == ("UNKNOWN", None)
    assert "7 steps" in change.why


def test_what_every_tenth_step_costs_counts():
    before = dict.fromkeys(range(2, 202), 1.0)
    now = {n: 11.0 if n % 10 == 0 else 1.0 for n in before}
    assert change_of_steps([before], now).ratio > 1.4


def test_the_state_of_the_machine_widens_the_side_that_it_may_explain():
    before, now = run(1, 1.0), run(2, 1.5)
    still = change_of_steps([before], now)
    loaded = change_of_steps([before], now, drift=MachineDrift(up=math.log(1.5)))
    assert loaded.verdict() == "UNKNOWN"
    assert loaded.widest == "machine"
    assert loaded.interval[0] == pytest.approx(still.interval[0] / 1.5)
    assert loaded.interval[1] == pytest.approx(still.interval[1])


def test_load_slows_by_at_most_what_others_take():
    assert load_bound(None, 2) == load_bound(0.0, 2) == load_bound(1.0, None) == 0.0
    # Both cores are in use, perhaps two threads of one: a run of one thread lost no more.
    assert load_bound(1.0, 2, own=1.0, wanted=1) == pytest.approx(math.log(1.5))
    # It got a third of the core that it wanted.
    assert load_bound(1.7, 2, own=0.3, wanted=1) == pytest.approx(math.log(1 / 0.3 * 1.85))
    assert load_bound(1.0, 2, own=1.0) == pytest.approx(math.log(2 * 1.5))  # it may want both
    assert load_bound(1.0, 64, own=8.0, wanted=32) < 0.02  # others are free


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_figure_that_is_none_has_no_ratio(bad):
    assert change_of_values([1.0], bad).verdict() == "UNKNOWN"
    assert change_of_steps([dict.fromkeys(range(9), 1.0)], dict.fromkeys(range(9), bad)).why


def test_a_single_value_has_the_scatter_of_runs():
    assert change_of_values([1.0], 1.05).verdict() == "UNKNOWN"
    assert change_of_values([1.0], 2.0).verdict() == "SLOWER"


def test_counts_may_be_off_by_one():
    assert change_of_counts([(0, 100)], (0, 90)).verdict() == "SAME"
    assert change_of_counts([(2, 100)], (3, 100)).verdict() == "UNKNOWN"
    assert change_of_counts([(0, 100)], (100, 100)).verdict() == "SLOWER"
    assert change_of_counts([(100, 100)], (200, 200)).verdict() == "SAME"


def test_a_rate_is_the_inverse_of_its_cost():
    change = change_of_values([1.0], 2.0)
    ratio, (low, high) = change.of_figure("less")
    assert ratio == pytest.approx(0.5)
    assert (low, high) == pytest.approx((1 / change.interval[1], 1 / change.interval[0]))
    assert change.shown("less").startswith("-50% (")
    assert change.over(2.0).ratio == pytest.approx(4.0)
