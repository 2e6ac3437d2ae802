import math
import random

import pytest

from hotloop.core.plan import Plan
from hotloop.core.trial import (
    PAIRS,
    Comparison,
    Scatter,
    Trial,
    compare,
    signed_rank_interval,
)

PLAN = Plan(micro_batch=1)


def trial(times, **more) -> Trial:
    return Trial(plan=PLAN, rounds=dict(enumerate(times)), steps=30, **more)


def noisy(seed: int, middle: float, n: int = 10, spread: float = 0.02) -> list[float]:
    draw = random.Random(seed)
    return [middle * math.exp(draw.gauss(0, spread)) for _ in range(n)]


def test_half_the_time_is_faster_and_twice_the_time_is_slower():
    one, two = trial(noisy(1, 1.0)), trial(noisy(2, 0.5))
    assert compare(two, one).verdict == "FASTER"
    assert compare(one, two).verdict == "SLOWER"
    assert compare(two, one).ratio == pytest.approx(0.5, rel=0.02)


def test_the_factor_of_a_comparison_is_how_many_times_as_fast():
    found = compare(trial([0.5] * 8), trial([1.0] * 8))
    assert found.factor == "2.00x (2.00-2.00)"
    assert Comparison(verdict="UNKNOWN", why="").factor == "-"


def test_equal_times_of_enough_processes_are_the_same():
    equal = trial([1.0] * 8 * PAIRS, pairs=tuple(range(0, 8 * PAIRS, 8)))
    assert compare(equal, equal).verdict == "SAME"
    one = compare(trial([1.0] * 8), trial([1.0] * 8))
    assert (one.verdict, one.is_open) == ("UNKNOWN", True), "one pair may be alike by chance"


def test_a_wide_interval_cannot_be_told():
    wild = [0.5, 1.9, 0.6, 1.7, 0.7, 1.5, 0.9, 1.2]
    assert compare(trial(wild), trial([1.0] * 8)).verdict == "UNKNOWN"


def test_what_meets_both_in_a_round_takes_nothing_from_the_verdict():
    load = [1, 3, 1, 5, 2, 1, 4, 1, 1, 2]
    base = trial([1.0 * more for more in load])
    tried = trial([0.8 * more for more in load])
    assert compare(tried, base).interval == pytest.approx((0.8, 0.8))


def test_a_gain_within_the_edge_is_none():
    pairs = tuple(range(0, 8 * PAIRS, 8))
    base, tried = (
        trial([step] * 8 * PAIRS, pairs=pairs, keeps_memory=True) for step in (1.0, 0.985)
    )
    assert compare(tried, base).verdict == "SAME"


def test_too_few_rounds_cannot_be_told_and_it_says_how_many_are_needed():
    found = compare(trial([0.1] * 7), trial([1.0] * 7))
    assert (found.verdict, found.n, found.ratio) == ("UNKNOWN", 7, pytest.approx(0.1))
    assert "at least 8 are needed" in found.why


def test_only_rounds_that_both_made_count():
    base = trial([1.0] * 10)
    tried = Trial(plan=PLAN, rounds=dict.fromkeys(range(1, 11), 0.5))
    assert compare(tried, base).n == 9


def test_a_failed_trial_is_compared_with_nothing():
    failed = trial([], outcome="over memory", reason="it needed more")
    found = compare(failed, trial([1.0] * 8))
    assert (found.verdict, found.why) == ("UNKNOWN", "over memory: it needed more")


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_time_that_is_none_cannot_be_told(bad):
    assert compare(trial([bad] * 8), trial([1.0] * 8)).verdict == "UNKNOWN"


def test_a_plan_against_itself_is_seldom_called_anything_else():
    wrong = 0
    for seed in range(300):
        draw = random.Random(seed)
        load = [math.exp(abs(draw.gauss(0, 0.3))) for _ in range(10)]
        mine = trial([more * draw.lognormvariate(0, 0.05) for more in load])
        other = trial([more * draw.lognormvariate(0, 0.05) for more in load])
        wrong += compare(mine, other).verdict in ("FASTER", "SLOWER")
    assert wrong <= 6  # 2 %


def processes(seed: int, middle: float, *, pairs: int, apart: float = 0.025) -> Trial:
    """Return a trial of processes that differ for good; `apart` is their standard deviation."""
    draw = random.Random(seed)
    times = []
    for pair in range(pairs):
        times += noisy(1000 * seed + pair, middle * math.exp(draw.gauss(0, apart)))
    return trial(times, pairs=tuple(range(0, 10 * pairs, 10)))


def test_a_tenth_is_found_by_eight_pairs_of_processes_that_differ():
    found = 0
    for seed in range(100):
        base, tried = processes(seed, 1.0, pairs=PAIRS), processes(seed + 500, 1.1, pairs=PAIRS)
        found += compare(tried, base).verdict == "SLOWER"
    assert found >= 95


@pytest.mark.parametrize("pairs", [1, 2, 4, 8])
@pytest.mark.parametrize("apart", [0.0, 0.025, 0.045])
def test_processes_of_one_plan_that_differ_for_good_are_seldom_called_anything(pairs, apart):
    wrong = 0
    for seed in range(200):
        base = processes(seed, 1.0, pairs=pairs, apart=apart)
        tried = processes(seed + 500, 1.0, pairs=pairs, apart=apart)
        wrong += compare(tried, base).verdict in ("FASTER", "SLOWER")
    assert wrong <= 2  # 1 %


def test_one_pair_of_processes_is_not_enough_for_a_tenth_and_it_says_so():
    found = compare(trial(noisy(1, 1.1)), trial(noisy(2, 1.0)))
    assert (found.verdict, found.is_open) == ("UNKNOWN", True)
    assert "one pair of processes of one plan may lie so far apart" in found.why


def test_one_pair_is_enough_for_what_no_two_processes_of_one_plan_are_apart():
    assert compare(trial(noisy(1, 1.4)), trial(noisy(2, 1.0))).verdict == "SLOWER"


def test_where_no_more_pairs_could_tell_it_none_are_asked_for():
    equal, same = processes(3, 1.0, pairs=4, apart=0.0), processes(4, 1.0, pairs=4, apart=0.0)
    assert not compare(equal, same).is_open
    most = processes(3, 1.05, pairs=PAIRS)
    assert not compare(most, processes(4, 1.0, pairs=PAIRS)).is_open


def test_processes_that_disagree_cannot_be_told():
    times = [*noisy(1, 0.8), *noisy(2, 1.22)]
    found = compare(trial(times, pairs=(0, 10)), processes(2, 1.0, pairs=2))
    assert found.verdict == "UNKNOWN"


def test_a_machine_whose_processes_are_alike_lets_small_gains_be_told():
    tried, base = processes(1, 0.95, pairs=4, apart=0.0), processes(2, 1.0, pairs=4, apart=0.0)
    assert compare(tried, base).verdict == "UNKNOWN"
    known = Scatter()
    for seed in range(10):
        alike = [processes(10 * seed + n, 1.0, pairs=4, apart=0.0) for n in (3, 4)]
        known = known.seen(compare(*alike))
    assert known.sd < Scatter().sd / 2
    assert compare(tried, base, scatter=known).verdict == "FASTER"


def test_the_interval_of_the_signed_ranks_is_that_of_the_tables():
    # Critical value of n = 8 at 5 % two-sided is 3 (Wilcoxon's table): from the 4th mean on.
    values = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
    means = sorted((a + b) / 2 for n, a in enumerate(values) for b in values[n:])
    low, middle, high = signed_rank_interval(values, 0.05)
    assert (low, high) == (means[3], means[-4])
    assert low < middle < high


def test_few_values_give_the_widest_interval():
    assert signed_rank_interval([1.0, 2.0, 3.0])[::2] == (1.0, 3.0)


def test_what_is_paid_once_is_all_but_the_share_of_the_warm_steps():
    known = trial([0.1] * 6, started=4.0, warmed=3.0, warm_steps=10)
    assert known.once == pytest.approx(6.0)
    assert trial([], started=1.0, warmed=1.0).once is None


def test_rounds_of_another_process_follow_those_of_the_first():
    joined = trial([1.0, 2.0]).joined(trial([3.0], outcome="over", reason="its end"), 2)
    assert joined.rounds == {0: 1.0, 1: 2.0, 2: 3.0}
    assert (joined.steps, joined.outcome) == (60, "over")
    assert joined.step_time.median == 2.0
