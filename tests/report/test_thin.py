import math
import random

from hotloop.report.thin import thin


def test_few_points_stay_what_they_are():
    points = [(1.0, 3.0), (2.0, 1.0), (3.0, 2.0)]
    made = thin(points, buckets=2)
    assert [(b.x, b.low, b.middle, b.high) for b in made] == [(x, y, y, y) for x, y in points]


def test_a_spike_of_one_step_in_100_000_stays_visible():
    draw = random.Random(0)
    points = [(float(n), 2 + draw.random()) for n in range(100_000)]
    points[54_321] = (54_321.0, 40.0)
    points[77_777] = (77_777.0, -3.0)
    made = thin(points, buckets=300)
    assert len(made) <= 300
    assert max(b.high for b in made) == 40
    assert min(b.low for b in made) == -3
    assert max(b.middle for b in made) < 3, "the line itself is the median"
    high = max(made, key=lambda b: b.high)
    assert abs(high.x - 54_321) <= 100_000 / 300


def test_buckets_follow_one_another_and_are_named_after_a_point_that_exists():
    made = thin([(float(n), 0.0) for n in range(5000)], buckets=100)
    xs = [b.x for b in made]
    assert xs == sorted(xs)
    assert all(x == int(x) for x in xs)


def test_what_no_chart_can_scale_is_left_out():
    points = [(1.0, math.nan), (2.0, math.inf), (3.0, 1e308), (4.0, 1.0), (math.nan, 1.0)]
    assert [(b.x, b.middle) for b in thin(points, buckets=10)] == [(4.0, 1.0)]
    assert thin([], buckets=10) == []


def test_points_at_one_place_make_one_bucket():
    made = thin([(7.0, float(n)) for n in range(100)], buckets=10)
    assert [(b.x, b.low, b.high) for b in made] == [(7.0, 0.0, 99.0)]
