import pytest

from hotloop.engine.lr_schedule import schedule

CASES = {"peak": 1.0, "floor": 0.1, "warmup": 4, "total": 24}


@pytest.mark.parametrize("kind", ["constant", "linear", "cosine"])
def test_warms_up_to_the_peak(kind):
    rate = schedule(kind, **CASES)
    assert [rate(step) for step in range(5)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_shapes_between_warm_up_and_end():
    middle, end = 14, 24
    assert schedule("constant", **CASES)(end) == 1.0
    for kind in ("linear", "cosine"):
        rate = schedule(kind, **CASES)
        assert rate(middle) == pytest.approx(0.55)
        assert rate(end) == rate(end + 100) == pytest.approx(0.1)
    assert schedule("cosine", **CASES)(9) > schedule("linear", **CASES)(9)


def test_is_a_function_of_the_step_alone():
    rate = schedule("cosine", **CASES)
    forwards = [rate(step) for step in range(30)]
    assert [rate(step) for step in reversed(range(30))] == forwards[::-1]


def test_without_an_end_it_stays_at_the_peak():
    assert schedule("cosine", peak=1.0, floor=0.1, warmup=0, total=None)(10**6) == 1.0
