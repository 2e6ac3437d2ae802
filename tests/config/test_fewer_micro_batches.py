"""Micro batches follow a smaller batch, or shorter rows, of the user."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from hotloop.config.common import ALIASES, Preset, Training
from hotloop.config.layers import SettingsLayer
from hotloop.config.resolver import Resolver
from hotloop.config.schema import setting
from hotloop.config.settings import Resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    context: int = setting(256, "length of a row", low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    preset: str = setting("p", "preset")
    experiment: str | None = setting(None, "experiment")
    training: Training = field(default_factory=lambda: Training(max_steps=5000))
    model: Model = field(default_factory=Model)


PRESET = Preset(
    source="rule",
    values={"training.batch_size": 48, "training.accumulation": 4},
    reasons=dict.fromkeys(("training.batch_size", "training.accumulation"), "12 rows"),
)


def resolved(*typed: str, row: str | None = None, **more: Any) -> Resolved[Config]:
    resolve: Any = Resolver(
        schema=Config,
        aliases=ALIASES,
        presets={"p": PRESET},
        experiments={},
        check=lambda config, origins: None,
        row=row,
        **more,
    )
    return resolve(typed)


def micro_batches(*typed: str, row: str | None = None) -> int:
    number: int = resolved(*typed, row=row).config.training.accumulation
    return number


@pytest.mark.parametrize(
    ("batch", "number"),
    [(48, 4), (24, 2), (36, 3), (12, 1), (10, 1), (13, 1), (16, 2), (20, 2), (50, 2), (96, 4)],
)
def test_a_smaller_batch_comes_in_the_fewest_micro_batches_of_at_most_the_usual_size(batch, number):
    """The number divides the batch; if none fits, it also divides the usual number: 13, 50, 96."""
    assert micro_batches(f"training.batch_size={batch}") == number


def test_rows_of_a_quarter_of_the_length_come_in_one_micro_batch():
    assert micro_batches("model.context=64", row="model.context") == 1
    assert micro_batches("model.context=128", row="model.context") == 2
    assert micro_batches("model.context=512", row="model.context") == 4
    assert micro_batches("model.context=64") == 4, "rows of many lengths"
    assert micro_batches("model.context=64", "training.batch_size=96", row="model.context") == 2


def test_what_the_user_asks_for_stays():
    assert micro_batches("training.batch_size=12", "training.accumulation=4") == 4
    assert micro_batches("training.accumulation=2", "model.context=64", row="model.context") == 2


def test_the_origin_says_what_the_number_gave_way_to():
    origin = resolved("training.batch_size=12").origins["training.accumulation"]
    assert origin.startswith("was 4 (preset p")
    assert origin.endswith("gave way to training.batch_size=12 (command line)")


def test_what_derives_from_other_settings_is_usual_too():
    """A phase with batches of 16 rows in two: 8 of the user's rows come in one, 12 in two."""

    def phase(resolved: Resolved[Config]) -> SettingsLayer:
        values = {"training.batch_size": 16, "training.accumulation": 2}
        typed = resolved.requested
        left = {key: value for key, value in values.items() if key not in typed}
        return SettingsLayer(origin="phase", values=left)

    for batch, number in ((8, 1), (12, 2)):
        found = resolved(f"training.batch_size={batch}", derived=phase)
        assert found.config.training.accumulation == number


def test_an_older_spelling_of_the_length_counts_alike():
    found = resolved("model.block_size=64", row="model.context")
    assert found.config.training.accumulation == 1
