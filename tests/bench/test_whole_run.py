from dataclasses import replace

import pytest

from hotloop.bench.whole_run import make_epoch, shortened
from hotloop.config.schema import flatten
from hotloop.core.plan import Plan
from hotloop.core.trial import Trial

from .conftest import SAID

TRIAL = Trial(plan=Plan(micro_batch=6), rounds=dict.fromkeys(range(6), 0.002), steps=60)


def test_an_epoch_is_as_long_as_asked_where_the_data_are_longer(parts):
    large = replace(parts, feed=replace(parts.feed, batch_size=1))
    config = shortened(large, 50).config
    assert config.training.epochs == 1
    assert config.training.max_steps is None
    assert config.data.max_chars == pytest.approx(50 * 16 / 0.9, rel=0.1)
    assert shortened(parts, 1000).config.data.max_chars is None, "all there is"
    left = {k for k, v in flatten(config).items() if v != flatten(parts.request.config)[k]}
    assert left == {"training.epochs", "training.max_steps", "data.max_chars"}


def test_the_forecast_stands_beside_the_real_epoch(parts, tmp_path):
    made = make_epoch(parts, TRIAL, SAID, tmp_path / "kept")
    assert made.steps == 19
    assert made.why is None
    assert made.measured > 1, "a process starts and trains"
    assert made.rows["step"] > 0
    assert made.estimated > SAID["start"]
    names = sorted(path.name for path in (tmp_path / "kept").iterdir())
    assert names == ["epoch.json", f"plan-{TRIAL.plan.fingerprint}.json"]


def test_without_a_validation_that_was_timed_there_is_no_forecast(parts, tmp_path):
    made = make_epoch(parts, TRIAL, {**SAID, "aside": None}, tmp_path)
    assert made.measured is None
    assert made.why == "no validation was timed"
