import pytest

from hotloop.observe.wall.step_boundaries import Cadence


@pytest.mark.parametrize(
    ("cycle", "ending"),
    [("a", "a"), ("ab", "b"), ("ddddg", "g"), ("abc", "c"), ("ggd", "d")],
)
def test_the_last_optimizer_of_a_cycle_ends_the_step(cycle: str, ending: str):
    cadence = Cadence()
    ends = [key for key in cycle * 40 if cadence.ends(ord(key))]
    settled = ends[len(ends) // 2 :]
    assert set(settled) == {ending}
    assert len(settled) >= 19


def test_an_optimizer_that_is_over_is_forgotten():
    cadence = Cadence()
    for _ in range(3):
        cadence.ends(1)
    assert all([cadence.ends(2) for _ in range(80)][40:])


def test_an_optimizer_of_a_trial_step_is_forgotten_soon():
    cadence = Cadence()
    cadence.ends(1)
    ends = [cadence.ends(2) for _ in range(20)]
    assert all(ends[8:])


def test_an_optimizer_with_long_pauses_still_ends_the_step():
    cadence = Cadence()
    ends = [key for key in ("d" * 14 + "g") * 20 if cadence.ends(ord(key))]
    assert ends[-10:] == ["g"] * 10
