"""What is said after the first steps: time left, whether speed matters, what saving takes."""

import re
from types import SimpleNamespace

import pytest

from hotloop.engine.checkpoint_policy import SavePolicy
from hotloop.engine.time_left import LOOK, TimeLeft
from hotloop.engine.wall_time import WallTime
from hotloop.session.accumulation_windows import Position


def said(
    *,
    steps,
    each,
    set_up=0.0,
    per_epoch=10,
    durable=0.01,
    every_steps=None,
    every_seconds=600.0,
    keep=2,
    beside=False,
    known_at=1,
    made=LOOK + 5,
):
    """Return (step, text, warning) of each line of a run with steps of `each` seconds."""
    now, told = [0.0], []
    wall_time = WallTime(lambda: now[0])
    now[0] += set_up
    wall_time.mark("start")
    policy = SavePolicy(
        every_steps=every_steps, every_seconds=every_seconds, keep=keep, best_cooldown=None
    )
    checkpoint_policy = SimpleNamespace(policy=policy, durable=None, is_beside=beside)
    metrics_log = SimpleNamespace(
        flush=lambda: None,
        note=lambda step, text, warning=False: told.append((step, text, warning)),
    )
    time_left = TimeLeft(
        steps=steps,
        per_epoch=per_epoch,
        wall_time=wall_time,
        metrics_log=metrics_log,
        checkpoint_policy=checkpoint_policy,
    )
    for step in range(1, min(made, steps) + 1):
        now[0] += 5.0 if step == 1 else each  # the first one is slow, and is not timed
        wall_time.mark("forward")
        checkpoint_policy.durable = durable if step >= known_at else None
        time_left.step(Position(step=step))
    return told


def test_a_long_run_hears_its_time_once():
    ((step, text, warning),) = said(steps=1010, each=2.0, made=40)
    assert (step, warning) == (10, False)
    assert text == (
        "time left: 33:20 for 1,000 steps, 0.5 steps/s; validating and saving come on top"
    )


def test_few_data_hear_that_speed_does_not_matter():
    ((_, text, _),) = said(steps=110, each=0.12, set_up=3.0)
    assert text.startswith("time left: 12.0 s for 100 steps; the data are so small that speed does")
    assert "(all 110 steps take 13.2 s, the set-up took 3.00 s)" in text
    assert text.endswith("look at the answers instead")


def test_steps_that_take_less_than_the_set_up_do_not_matter_either():
    ((_, text, _),) = said(steps=110, each=1.0, set_up=200.0, per_epoch=1000)
    assert "the steps are so few that speed does not matter" in text
    ((_, text, _),) = said(steps=110, each=1.0, set_up=100.0)
    assert "does not matter" not in text


@pytest.mark.parametrize("steps", [LOOK - 1, LOOK])
def test_a_run_that_is_over_hears_nothing(steps):
    assert said(steps=steps, each=1.0) == []


def test_costly_saving_is_warned_of_with_settings_that_cost_a_twentieth():
    told = said(steps=4000, each=0.05, per_epoch=20, durable=0.5, every_steps=20, keep=3)
    ((step, text, _),) = [line for line in told if line[2]]
    assert step == 10
    assert text.startswith(
        "33% of the run goes into saving: 200 saves x 500 ms = 1:40, against 3:20"
    )
    assert re.search(r"training.save_every_steps=20[01] \(10 epochs\), training.keep=2", text)


def test_saving_beside_the_training_is_told_as_time_of_writing():
    told = said(steps=4000, each=0.05, durable=0.5, every_steps=20, beside=True)
    ((_, text, _),) = [line for line in told if line[2]]
    assert text.startswith("50% of the time a save is being written in the background: 200 saves")


def test_saving_by_time_has_a_remedy_of_its_own():
    told = said(steps=4000, each=0.5, durable=5.0, every_seconds=10.0)
    ((_, text, _),) = [line for line in told if line[2]]
    assert "training.save_every=100s" in text
    assert "save_every_steps" not in text


@pytest.mark.parametrize(
    "cheap",
    [
        {"durable": 0.01},  # a tenth of a percent
        {"steps": 100, "durable": 0.5},  # half of it, and three seconds in all
    ],
)
def test_cheap_saving_is_not_worth_a_line(cheap):
    told = said(**{"steps": 4000, "each": 0.05, "every_steps": 20, **cheap})
    assert [line for line in told if line[2]] == []


def test_a_first_save_that_is_still_written_is_waited_for():
    told = said(steps=4000, each=0.05, durable=0.5, every_steps=20, known_at=13)
    assert [line[0] for line in told] == [10, 13]
