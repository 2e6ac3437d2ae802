"""Blocks of steps: gains are told by neighbouring plain blocks, on a clock of the test's own."""

import pytest

from hotloop.observe.experiments.blocks import WARM, Blocks
from hotloop.observe.experiments.variants import NOT_REACHED, TimedPart, Variant


class Change(Variant):
    """A change that makes a step shorter."""

    def __init__(self, seconds: float, *, rare: float = 1.0, why: str | None = None) -> None:
        self.seconds, self.rare, self.why, self.on = seconds, rare, why, False

    def prepare(self) -> str | None:
        return self.why

    def switch_on(self) -> None:
        self.on = True

    def switch_off(self) -> None:
        self.on = False

    def steps_per_call(self, steps: int) -> float:
        return self.rare


def made(changes: list[Change], *, seconds: float = 60.0, slower=lambda step: 1.0, steps=100_000):
    """Make steps of 10 ms, less what the changes take away, until the blocks are done."""
    now = [0.0]
    blocks = Blocks(list(changes), seconds=seconds, clock=lambda: now[0])
    for step in range(steps):
        gone = next((change.seconds for change in changes if change.on), 0.0)
        now[0] += (0.010 - gone) * slower(step)
        if not blocks.ended_step():
            break
    return blocks, step


def test_each_change_has_its_own_gain():
    blocks, _ = made([Change(0.005), Change(0.0), Change(0.0075)])
    gains = [reading.ratios for reading in blocks.readings]
    assert [round(sum(g) / len(g), 2) for g in gains] == [2.0, 1.0, 4.0]


def test_a_machine_that_slows_down_slows_both_sides():
    blocks, _ = made([Change(0.005)], slower=lambda step: 1 + step / 2000)
    assert blocks.readings[0].ratios == pytest.approx(
        [2.0] * len(blocks.readings[0].ratios), rel=0.02
    )


def test_blocks_on_both_sides_of_a_new_phase_are_not_compared():
    blocks, _ = made([Change(0.005)], slower=lambda step: 1.0 if step < 60 else 3.0)
    assert blocks.readings[0].ratios == pytest.approx(
        [2.0] * len(blocks.readings[0].ratios), rel=0.02
    )


def test_it_ends_when_its_time_is_over():
    blocks, step = made([Change(0.005), Change(0.004)], seconds=1.0)
    assert step < WARM + 400
    assert all(len(reading.ratios) <= 2 for reading in blocks.readings)


def test_what_cannot_be_changed_costs_no_time_and_says_why():
    blocks, step = made([Change(0.005, why="no loader was read")])
    assert blocks.readings[0].why_not == "no loader was read"
    assert step < 2 * WARM + 40


def test_a_line_that_is_not_reached_is_waited_for_until_the_time_is_over():
    change = Change(0.005, why=NOT_REACHED)
    blocks, step = made([change], seconds=2.0)
    assert (blocks.readings[0].ratios, blocks.readings[0].why_not) == ([], NOT_REACHED)
    assert 150 < step < 260


def test_the_blocks_of_a_rare_line_hold_two_calls():
    blocks, _ = made([Change(0.005, rare=100)])
    assert blocks.readings[0].steps >= 200 * len(blocks.readings[0].ratios) > 0


def test_a_failure_is_told_of_the_change_that_is_on():
    now = [0.0]
    change = Change(0.005)
    blocks = Blocks([change], seconds=10, clock=lambda: now[0])
    while not change.on:
        now[0] += 0.01
        blocks.ended_step()
    blocks.failed("the script raised")
    assert blocks.readings[0].why_not == "the script raised"
    assert not change.on


class Apart(Change):
    """A change that is timed apart from the steps."""

    most = 1.0

    def measured_apart(self, step: float, waiting: float) -> TimedPart:
        assert not self.on
        return TimedPart(seconds=self.seconds, changed=self.seconds / 2, most=self.most)


def test_what_is_timed_apart_is_taken_from_plain_steps():
    blocks, _ = made([Apart(0.005)])
    assert blocks.readings[0].ratios == pytest.approx([10 / 7.5] * len(blocks.readings[0].ratios))
    assert blocks.readings[0].steps > 0


@pytest.mark.parametrize(("most", "gain"), [(1.0, 2.0), (0.8, 10 / 6)])
def test_a_part_takes_no_more_than_its_share_of_the_step(most, gain):
    change = Apart(0.050)
    change.most = most
    blocks, _ = made([change])
    assert blocks.readings[0].ratios == pytest.approx([gain] * len(blocks.readings[0].ratios))


def test_slow_steps_get_two_blocks_of_each_change_in_more_time():
    blocks, step = made([Change(0.005), Change(0.0)], seconds=10.0, slower=lambda step: 100)
    assert [len(reading.ratios) for reading in blocks.readings] == [2, 2]
    assert step < 30


def test_what_comes_rarely_waits_for_what_comes_in_each_step():
    rare, usual = Change(0.005, rare=100.0), Change(0.005)
    blocks, _ = made([rare, usual], steps=400)
    assert (len(blocks.readings[0].ratios), len(blocks.readings[1].ratios)) == (0, 3)
