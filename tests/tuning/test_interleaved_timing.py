import itertools
import math
from dataclasses import dataclass, field

import pytest

from hotloop.core.plan import Plan
from hotloop.core.trial import compare
from hotloop.tuning.interleaved_timing import race, race_apart
from hotloop.tuning.lane import WARM, Entry, RaceLength
from hotloop.tuning.trial_process import TrialEnded, TrialReport

BASE = Plan(micro_batch=1)


def length(**more):
    """Return a length of races whose blocks are one turn."""
    return RaceLength(**{"turn": math.inf, **more})


TRIED = BASE.plus("gc-freeze")


@dataclass
class Fake:
    """A trial whose steps take what it is told; it notes who is awake."""

    step: float
    log: list
    name: str
    total: int = 10_000
    fails: TrialEnded | None = None
    fails_at: int = 0
    effects: dict = field(default_factory=dict)
    epoch: int = 10_000
    peak_bytes: int = 5
    peak: int | None = None  # of GPU memory
    has_workers: bool = False
    made: int = 0
    open: bool = False

    def __enter__(self):
        self.open = True
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self.open = False

    def first(self, *, seconds):
        return self._made(1, 2.0)

    def keep_memory(self):
        self.log.append((self.name, "keep"))

    def block(self, steps, *, seconds):
        return self._made(steps, steps * self.step)

    def _made(self, steps, seconds):
        assert self.open
        self.log.append((self.name, steps))
        self.made += steps
        if self.fails is not None and self.made > self.fails_at:
            raise self.fails
        if self.made > self.total:
            raise TrialEnded("over", "the script ended", at=self.total)
        more = {
            "effects": {id: list(effect) for id, effect in self.effects.items()},
            "epochs": 1 + self.made // self.epoch,
            "evidence": {"losses": [1.0], "late": [0.5]} if self.made > WARM else {"late": []},
            "peak": self.peak,
        }
        return TrialReport(seconds=seconds, made=steps, at=self.made, more=more)


def entries(*fakes_of, **more):
    plans = itertools.cycle((BASE, TRIED))
    return [
        Entry(plan=plan, start=start, **more) for plan, start in zip(plans, fakes_of, strict=False)
    ]


def test_blocks_of_equal_steps_are_made_by_turns():
    log = []
    one, two = race(
        entries(lambda: Fake(0.1, log, "one"), lambda: Fake(0.05, log, "two")), length(rounds=8)
    )
    blocks = [entry for entry in log if entry[1] == 5][4:]  # the warm-up has two parts each
    assert [name for name, _ in blocks] == ["one", "two"] * 8
    assert (len(one.rounds), two.steps, two.warm_steps) == (8, 40, WARM)
    assert two.started == 2.0
    assert two.warmed == pytest.approx(0.5)
    assert compare(two, one).verdict == "FASTER"
    assert list(two.evidence.losses) == [1.0]
    assert len(two.evidence.late) == 9  # the rounds', and one of the warm-up
    assert two.peak_bytes == 5


def test_the_steps_of_a_block_are_made_in_short_turns():
    log = []
    one, two = race(
        entries(lambda: Fake(0.1, log, "one"), lambda: Fake(0.05, log, "two")),
        length(rounds=8, turn=0.1),
    )
    turns = log[6:]
    assert turns == [("one", 3), ("two", 3), ("one", 2), ("two", 2)] * 8
    assert one.rounds == dict.fromkeys(range(8), pytest.approx(0.1))
    assert two.steps == 40


@pytest.mark.parametrize("more", [{"peak": 7}, {"has_workers": True}])
def test_a_block_is_one_turn_on_a_gpu_and_beside_loader_workers(more):
    """Each turn ends with a wait for the GPU, and workers work on until they sleep."""
    log = []
    fakes = [lambda: Fake(0.1, log, "one"), lambda: Fake(0.1, log, "two", **more)]
    _, two = race(entries(*fakes), length(rounds=8, turn=0.1, pairs=1))
    assert log[6:] == [("one", 3), ("two", 3)] * 8
    assert two.peak_of == ("gpu" if "peak" in more else "processes")


def test_a_block_that_its_process_does_not_end_is_not_counted():
    log = []
    one, two = race(
        entries(lambda: Fake(0.1, log, "one"), lambda: Fake(0.1, log, "two", total=39)),
        length(rounds=10, turn=0.1, pairs=1),
    )
    assert log[-1] == ("one", 1)
    assert len(two.rounds) == 9
    assert compare(two, one).n == 9


def test_processes_are_told_to_keep_memory_before_they_warm_up():
    log = []
    fakes = [lambda name=name: Fake(0.1, log, name) for name in ("one", "two")]
    one, two = race(entries(*fakes, keeps_memory=True), length(rounds=8))
    assert log[:4] == [("one", "keep"), ("one", 1), ("two", "keep"), ("two", 1)]
    assert (one.keeps_memory, two.keeps_memory) == (True, True)


def test_a_script_that_is_over_too_soon_is_started_again_with_smaller_blocks():
    log = []
    one, two = race(
        entries(
            lambda: Fake(0.001, log, "one", total=100), lambda: Fake(0.001, log, "two", total=100)
        ),
        length(rounds=8),
    )
    assert one.is_ok
    assert two.is_ok
    assert len(one.rounds.keys() & two.rounds.keys()) >= 8


def test_blocks_are_small_enough_for_a_script_whose_length_is_known():
    log = []
    one, two = race(
        entries(
            lambda: Fake(0.001, log, "one", total=100), lambda: Fake(0.001, log, "two", total=100)
        ),
        length(rounds=8, total=100, pairs=1),
    )
    assert one.is_ok
    assert len(one.rounds) == len(two.rounds) == 8
    assert log.count(("one", 1)) == 1, "it was started once"


def test_a_script_of_a_few_steps_is_too_short_and_says_so():
    log = []
    one, _ = race(
        entries(lambda: Fake(0.1, log, "one", total=12), lambda: Fake(0.1, log, "two", total=12)),
        length(rounds=8),
    )
    assert one.outcome == "over"
    assert one.reason == "the script ended: too few to compare"


@pytest.mark.parametrize("at", [0, 3, 20])
def test_one_that_fails_leaves_the_other_and_has_its_reason(at):
    log, bad = [], TrialEnded("over memory", "it needed more")
    one, two = race(
        entries(
            lambda: Fake(0.1, log, "one"), lambda: Fake(0.1, log, "two", fails=bad, fails_at=at)
        ),
        length(rounds=8),
    )
    assert one.is_ok
    assert (two.outcome, two.reason) == ("over memory", "it needed more")


def test_when_the_first_fails_nothing_else_is_run():
    log, bad = [], TrialEnded("failed", "SyntaxError")
    one, two = race(
        entries(lambda: Fake(0.1, log, "one", fails=bad), lambda: Fake(0.1, log, "two")),
        length(),
    )
    assert (one.outcome, two.outcome) == ("failed", "not run")
    assert [name for name, _ in log] == ["one"]


def test_a_technique_without_effect_is_not_timed():
    log, no = [], {"gc-freeze": ("not needed here", "nothing to freeze")}
    first, second = entries(
        lambda: Fake(0.1, log, "one"), lambda: Fake(0.1, log, "two", effects=no)
    )
    second = Entry(plan=second.plan, start=second.start, needs=("gc-freeze",))
    one, two = race([first, second], length(rounds=8))
    assert (two.outcome, two.reason) == ("not needed here", "nothing to freeze")
    assert len(one.rounds) <= 1


def test_where_the_first_epoch_costs_more_steps_are_timed_after_it():
    log = []
    one, two = race(
        entries(
            lambda: Fake(0.1, log, "one", epoch=40), lambda: Fake(0.1, log, "two", epoch=40),
            epochs=2,
        ),
        length(rounds=8),
    )  # fmt: skip
    assert one.warm_steps + 1 >= 40
    assert two.warm_steps == one.warm_steps


def test_an_epoch_that_is_too_long_is_not_waited_for():
    log, now = [], itertools.count()
    one, _ = race(
        entries(
            lambda: Fake(0.1, log, "one", epoch=10**9), lambda: Fake(0.1, log, "two"), epochs=2
        ),
        length(epoch=20.0),
        clock=lambda: next(now),
    )
    assert (one.outcome, one.reason.partition(" after")[0]) == ("too late", "epoch 2 had not begun")
    assert one.rounds == {}


@pytest.mark.parametrize(("step", "made"), [("15.0", 1), ("4.00", 2), ("0.50", None)])
def test_a_warm_up_that_would_end_after_the_deadline_is_left_off(step, made):
    log = []
    (one,) = race(
        entries(lambda: Fake(float(step), log, "one")),
        length(rounds=0, deadline=8.0),
        clock=lambda: float(step) * sum(steps for _, steps in log),
    )
    if made is None:
        assert (one.outcome, one.warm_steps) == ("ok", WARM)
        return
    assert (one.outcome, one.warm_steps) == ("no time", made)
    assert one.reason == (
        f"10 warm-up steps of {step} s end after the budget: give a longer --budget"
    )


def test_what_is_much_slower_in_the_first_rounds_is_let_go():
    log = []
    _, two = race(
        entries(lambda: Fake(0.1, log, "one"), lambda: Fake(0.5, log, "two")), length(rounds=10)
    )
    assert len(two.rounds) == 3


def test_what_takes_many_times_as_long_in_the_warm_up_is_let_go_before_a_round():
    log = []
    plans = [lambda step=step: Fake(step, log, f"{step}") for step in (0.1, 0.9, 0.05)]
    race_of = [Entry(plan=BASE.plus(f"n{n}"), start=start) for n, start in enumerate(plans)]
    one, two, three = race(race_of, length(rounds=8))
    assert (len(one.rounds), len(two.rounds), len(three.rounds)) == (8, 0, 8)
    assert two.too_slow == "9 times as long in the warm-up"


def test_steps_of_an_epoch_that_is_not_timed_let_nothing_go():
    """A cache fills in the first epoch, beside a script whose samples lie ready."""
    log = []

    class Filling(Fake):
        def block(self, steps, *, seconds):
            self.step = 0.9 if self.made < self.epoch else 0.1
            return super().block(steps, seconds=seconds)

    _, two = race(
        entries(
            lambda: Fake(0.1, log, "one", epoch=40),
            lambda: Filling(0.9, log, "two", epoch=40),
            epochs=2,
        ),
        length(rounds=8, pairs=1),
    )
    assert two.too_slow is None
    assert len(two.rounds) == 8


def test_of_several_the_slow_and_the_failed_leave_and_the_others_go_on():
    log, bad = [], TrialEnded("failed", "no")
    plans = [
        lambda: Fake(0.1, log, "first", total=60),
        lambda: Fake(0.3, log, "slow", total=60),
        lambda: Fake(0.1, log, "bad", fails=bad, fails_at=20),
        lambda: Fake(0.05, log, "good", total=60),
    ]
    race_of = [Entry(plan=BASE.plus(f"n{n}"), start=start) for n, start in enumerate(plans)]
    first, slow, failed, good = race(race_of, length(rounds=8))
    assert (len(slow.rounds), failed.outcome) == (3, "failed")
    assert len(first.rounds) == len(good.rounds) == 8
    assert log.count(("slow", 1)) == 1, "it is not started again when the scripts are over"


def test_memory_limits_how_many_run_beside_each_other():
    log = []
    plans = [lambda name=name: Fake(0.1, log, name) for name in ("one", "two", "three")]
    race_of = [Entry(plan=BASE.plus(f"n{n}"), start=start) for n, start in enumerate(plans)]
    one, two, three = race(race_of, length(rounds=8, pairs=1), room=lambda trial: 2)
    assert (len(one.rounds), len(two.rounds)) == (8, 8)
    assert (three.outcome, three.reason) == ("not run", "memory does not hold it")
    assert one.peak_bytes == 5, "it was known after the first one's warm-up"


def test_where_it_can_be_told_no_more_rounds_are_made():
    log = []
    one, _ = race(
        entries(lambda: Fake(0.1, log, "one"), lambda: Fake(0.05, log, "two")), length(rounds=9)
    )
    assert len(one.rounds) == 9


@pytest.mark.parametrize(
    ("step", "pairs", "verdict"),
    [(0.2, 1, "SLOWER"), (0.12, 2, "SLOWER"), (0.1, 2, "UNKNOWN"), (0.05, 1, "FASTER")],
)
def test_small_differences_are_looked_at_in_more_pairs_of_processes(step, pairs, verdict):
    log = []
    one, two = race(
        entries(lambda: Fake(0.1, log, "one"), lambda: Fake(step, log, "two")),
        length(rounds=8, hopeless=3.0),
    )
    assert log.count(("two", 1)) == pairs, "processes that were started"
    assert len(two.rounds) == 8 * pairs
    assert compare(two, one).verdict == verdict


def test_processes_that_keep_their_memory_are_called_the_same_after_few_pairs():
    log = []
    fakes = [lambda name=name: Fake(0.1, log, name) for name in ("one", "two")]
    one, two = race(entries(*fakes, keeps_memory=True), length(rounds=8))
    assert log.count(("two", 1)) == 3, "processes that were started"
    assert compare(two, one).verdict == "SAME"


def test_a_search_asks_for_no_more_pairs_where_there_is_no_gain():
    log = []
    race(
        entries(lambda: Fake(0.1, log, "one"), lambda: Fake(0.107, log, "two")),
        length(rounds=8, gain=0.97),
    )
    assert log.count(("two", 1)) == 1


def test_nothing_is_begun_after_the_deadline():
    log, now = [], itertools.count(0.0, 10.0)
    one, _ = race(
        entries(lambda: Fake(0.1, log, "one"), lambda: Fake(0.1, log, "two")),
        length(rounds=10, deadline=45.0),  # each lane looked at it once before the rounds
        clock=lambda: next(now),
    )
    assert len(one.rounds) == 3


def test_where_it_cannot_be_told_more_pairs_are_started_up_to_a_limit():
    class Wild(Fake):
        def _made(self, steps, seconds):
            return super()._made(steps, seconds * (0.5, 2.5, 0.7, 2.2)[self.made // steps % 4])

    log = []
    one, two = race(
        entries(lambda: Wild(0.1, log, "one"), lambda: Fake(0.1, log, "two")),
        length(rounds=8, pairs=3),
    )
    assert len(one.rounds) == len(two.rounds) == 24
    assert compare(two, one).verdict == "UNKNOWN"


def test_apart_only_one_process_lives_at_a_time():
    log, alive = [], []

    class Watched(Fake):
        def __enter__(self):
            alive.append(self.name)
            assert len(alive) == 1
            return super().__enter__()

        def __exit__(self, *error):
            alive.clear()
            super().__exit__(*error)

    one, two = race_apart(
        entries(lambda: Watched(0.1, log, "one"), lambda: Watched(0.05, log, "two")),
        length(rounds=8),
    )
    order = [name for name, _ in itertools.groupby(log, key=lambda entry: entry[0])]
    assert order == ["one", "two", "one"]  # the second one follows itself
    assert compare(two, one).verdict == "FASTER"
    assert len(one.rounds) == 8


def test_of_every_second_pair_of_processes_the_other_one_goes_first():
    log = []
    race(
        entries(lambda: Fake(0.1, log, "one"), lambda: Fake(0.12, log, "two")),
        length(rounds=8, hopeless=3.0),
    )
    starts = [name for name, steps in log if steps == 1]
    assert starts == ["one", "two", "two", "one"]
    blocks = [name for name, steps in log if steps == 3]
    assert blocks == ["one", "two"] * 8 + ["two", "one"] * 8
