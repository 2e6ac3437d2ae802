"""Blocks of steps: gains are told by neighbouring plain blocks, on a clock of the test's own."""

import statistics

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


def test_a_rare_long_step_is_in_no_block():
    blocks, _ = made([Change(0.002)], slower=lambda step: 40.0 if step % 47 == 20 else 1.0)
    ratios = blocks.readings[0].ratios
    assert ratios == pytest.approx([1.25] * len(ratios), rel=0.001)


def test_a_step_that_reads_the_batches_of_an_evaluation_is_in_no_block():
    change, now, read = Change(0.02), [0.0], [0]
    blocks = Blocks([change], seconds=60, clock=lambda: now[0], batches=lambda: read[0])
    for step in range(1, 100_000):
        evaluates = step % 3 == 0 and step % 2 == 0
        now[0] += (0.08 if change.on else 0.10) + 0.15 * evaluates
        read[0] += 5 if evaluates else 1
        if not blocks.ended_step():
            break
    ratios = blocks.readings[0].ratios
    assert ratios == pytest.approx([1.25] * len(ratios), rel=0.001)


def episodes(change: Change, calls_of_step) -> list[float]:
    """Make steps that are as long as the models are called often; return the gains."""
    now, calls = [0.0], [0]
    blocks = Blocks([change], seconds=60, clock=lambda: now[0], work=lambda: calls[0])
    for step in range(100_000):
        made = calls_of_step(step)
        now[0] += made * (0.001 - change.seconds * change.on)
        calls[0] += made
        if not blocks.ended_step():
            break
    return blocks.readings[0].ratios


def test_steps_with_more_or_fewer_calls_of_the_model_are_compared_by_the_call():
    ratios = episodes(Change(0.0002), lambda step: 20 + 37 * step % 50)
    assert len(ratios) >= 3
    assert ratios == pytest.approx([1.25] * len(ratios), rel=0.001)


def test_a_change_that_leaves_calls_out_is_compared_by_the_step():
    class Teacher(Change):
        keeps_calls = False

    now, calls, change = [0.0], [0], Teacher(0.0)
    blocks = Blocks([change], seconds=60, clock=lambda: now[0], work=lambda: calls[0])
    for step in range(100_000):
        made = (20 + step % 2) * (1 if change.on else 2)
        now[0] += 0.001 * made
        calls[0] += made
        if not blocks.ended_step():
            break
    ratios = blocks.readings[0].ratios
    assert ratios == pytest.approx([2.0] * len(ratios), rel=0.02)


def test_a_game_that_is_played_before_many_updates_is_no_work_of_theirs():
    ratios = episodes(Change(0.0002), lambda step: 2000 if step % 40 == 0 else 1)
    assert ratios == pytest.approx([1.25] * len(ratios), rel=0.001)


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


class Preparing(Change):
    """A change that takes a while to be prepared."""

    def __init__(self, now: list[float]) -> None:
        super().__init__(0.005)
        self._now = now

    def prepare(self) -> str | None:
        self._now[0] += 3.0
        return None


def test_the_time_of_preparing_a_change_is_none_of_a_step():
    now = [0.0]
    change = Preparing(now)
    blocks = Blocks([change], seconds=60.0, clock=lambda: now[0])
    while not change.on:
        now[0] += 0.010
        blocks.ended_step()
    steps = 0
    while change.on:
        now[0] += 0.005
        blocks.ended_step()
        steps += 1
    assert steps > 20  # a block is 0.3 s of steps


class Watching(Change):
    """A change that has to see a step before it can be made."""

    def prepare(self) -> str | None:
        self.why, before = None, self.why
        return before


def test_what_has_to_see_a_step_first_keeps_its_turn():
    first, second = Watching(0.005, why=NOT_REACHED), Change(0.0)
    blocks, _ = made([first, second], seconds=40.0, slower=lambda step: 300.0, steps=18)
    assert [len(reading.ratios) for reading in blocks.readings] == [2, 0]


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


class Prefetched:
    """Steps of 1 s beside workers that make a batch in `each` seconds and keep 8 in stock."""

    def __init__(self, change: Change, each: float) -> None:
        self.change, self.each = change, each
        self.now = self.made = 0.0
        self.stock, self.waited = 8, 0.0

    def step(self) -> None:
        self._until(self.now + 1.0 - (self.change.seconds if self.change.on else 0.0))
        if not self.stock:
            began = self.now
            self._until(self.made + self.each)
            self.waited += self.now - began
        self.stock -= 1

    def _until(self, time: float) -> None:
        while self.stock < 8 and self.made + self.each <= time + 1e-9:
            self.made, self.stock = self.made + self.each, self.stock + 1
        self.now = max(self.now, time)
        if self.stock == 8:
            self.made = self.now


@pytest.mark.parametrize(("each", "gain"), [(0.9, 1 / 0.9), (0.1, 2.5)])
def test_batches_in_stock_do_not_count_as_a_gain(each, gain):
    change = Change(0.6)
    run = Prefetched(change, each)
    blocks = Blocks(
        [change],
        seconds=400,
        settle=9,
        clock=lambda: run.now,
        waited=lambda: run.waited,
        stock=lambda: {1: run.stock},
    )
    run.step()
    while blocks.ended_step():
        run.step()
    assert len(blocks.readings[0].ratios) >= 3
    assert statistics.median(blocks.readings[0].ratios) == pytest.approx(gain)
    assert max(blocks.readings[0].ratios) <= 1.25 * gain


def test_a_steady_stock_needs_one_step_to_settle():
    change = Change(0.6)
    run = Prefetched(change, 0.1)
    blocks = Blocks([change], seconds=60, settle=9, clock=lambda: run.now, stock=lambda: {1: 8})
    run.step()
    steps = 1
    while blocks.ended_step():
        run.step()
        steps += 1
    assert len(blocks.readings[0].ratios) == 3
    assert steps <= 3 + 7 * (1 + 2)


def test_each_change_is_timed_before_the_next_where_time_is_short():
    now = [0.0]
    changes = [Change(0.5), Change(0.0), Change(0.2)]
    blocks = Blocks(list(changes), seconds=10.0, clock=lambda: now[0])
    for _ in range(200):
        now[0] += 1.0 - next((change.seconds for change in changes if change.on), 0.0)
        if not blocks.ended_step():
            break
    first, second, _ = blocks.readings
    assert len(first.ratios) == len(second.ratios) == 2
    assert first.ratios == pytest.approx([2.0, 2.0])


class Lasting(Change):
    """A change that stays after it is switched off."""

    is_last = True

    def switch_off(self) -> None:
        pass


@pytest.mark.parametrize("total", [None, 400])
def test_a_change_that_stays_is_made_when_all_others_are_done(total):
    first, last = Change(0.005), Lasting(0.0075)
    now = [0.0]
    blocks = Blocks([last, first], seconds=60, total=total, clock=lambda: now[0])
    for _ in range(total or 100_000):
        now[0] += 0.010 - (last.on and last.seconds) - (first.on and first.seconds)
        if not blocks.ended_step():
            break
    else:
        pytest.fail("the script ended before the blocks were done")
    stays, gone = (reading.ratios for reading in blocks.readings)
    assert stays == pytest.approx([4.0] * len(stays))
    assert gone == pytest.approx([2.0] * len(gone))
    assert min(len(stays), len(gone)) >= 2
