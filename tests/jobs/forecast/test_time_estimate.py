from dataclasses import replace

import pytest

from hotloop.config.common import Training
from hotloop.core.measurement import Measurement
from hotloop.jobs.forecast.time_estimate import Timing, Workload, estimate

TRAINING = Training(max_steps=1000, eval_every_steps=None)
TIMING = Timing(
    start=5.0,
    compile=20.0,
    step=Measurement(unit="s", readings=(0.1, 0.1, 0.12, 0.08, 0.1)),
    data_wait=0.01,
    validation=Measurement(unit="s", readings=(0.5,)),
    save=1.0,
    losses=(4.0, 3.0),
    made=8,
)


def work(training: Training = TRAINING, **changes) -> Workload:
    sizes = {"steps": 1000, "steps_per_epoch": 100, "micro_batch": 8, "validation": 60} | changes
    return Workload.of(training, **sizes)


def test_the_whole_is_the_sum_of_what_was_measured():
    forecast = estimate(TIMING, work(), TRAINING)
    assert forecast.rows == pytest.approx(
        {
            "start": 5.0,
            "compile": 20.0,
            "data wait": 10.0,
            "step": 90.0,
            "evaluate": 0.5 * 60 / 8,
            "save": 2.0,  # after step 1 and at the end
        }
    )
    assert forecast.seconds == pytest.approx(sum(forecast.rows.values()))
    assert forecast.share("step", "data wait") == pytest.approx(100 / forecast.seconds)
    assert forecast.low <= forecast.seconds <= forecast.high
    assert forecast.to_json()["steps"] == 1000


def test_the_span_is_that_of_the_quartiles_of_a_step():
    wide = replace(TIMING, step=Measurement(unit="s", readings=(0.08, 0.1, 0.14)))
    forecast = estimate(wide, work(), TRAINING)
    assert forecast.low == pytest.approx(forecast.seconds - 10)
    assert forecast.high == pytest.approx(forecast.seconds + 20)
    once = estimate(replace(TIMING, step=Measurement(unit="s", readings=(0.1,))), work(), TRAINING)
    assert once.low == once.high == pytest.approx(once.seconds)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"eval_every_steps": 250}, 4),
        ({"eval_every_steps": 300}, 4),  # 300, 600, 900 and the last step
        ({"eval_every_steps": 2000}, 1),
        ({"eval_every_steps": None}, 1),
        ({"eval_every_steps": None, "eval_every_epochs": 3}, 4),  # of 10 epochs
    ],
)
def test_validations_are_counted_as_the_loop_makes_them(settings, expected):
    assert work(replace(TRAINING, **settings)).validations == expected


def test_a_validation_reads_no_more_than_there_is():
    assert work().validation_batches == 7.5
    assert work(replace(TRAINING, eval_batches=3)).validation_batches == 3
    assert work(replace(TRAINING, eval_batches=30)).validation_batches == 7.5


@pytest.mark.parametrize(("every", "saves"), [(None, 2), (400, 4), (500, 3), (1, 1000)])
def test_saves_by_steps_are_counted_as_the_keeper_makes_them(every, saves):
    assert work(replace(TRAINING, save_every_steps=every)).fixed_saves == saves


def test_a_new_best_is_saved_within_the_budget_or_by_its_own_cooldown():
    often = replace(TRAINING, eval_every_steps=10)
    budget = estimate(TIMING, work(often), often)
    before_saves = budget.seconds - budget.rows["save"]
    assert budget.rows["save"] == pytest.approx(0.05 * before_saves)
    always = replace(often, best_cooldown=0.0)
    assert estimate(TIMING, work(always), always).saves == 2 + 99
    before = replace(often, best_cooldown=before_saves / 50)
    assert estimate(TIMING, work(before), before).saves == pytest.approx(50)
    cheap = estimate(replace(TIMING, save=0.001), work(often), often)
    assert cheap.saves == 2 + 99


def test_saves_by_the_clock_count_when_they_are_more():
    often = replace(TRAINING, save_every=10.0)
    forecast = estimate(TIMING, work(often), often)
    assert forecast.saves == (forecast.seconds - forecast.rows["save"]) // 10


def test_a_save_that_could_not_be_made_has_no_time():
    assert estimate(replace(TIMING, save=None), work(), TRAINING).rows["save"] == 0
