"""Micro batches follow a smaller batch, or shorter rows, of the user."""

from dataclasses import dataclass, field

import pytest

from hotloop.config.common import ALIASES, Preset, Training
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


def resolved(*typed: str, row: str | None = None) -> Resolved[Config]:
    resolve = Resolver(
        schema=Config,
        aliases=ALIASES,
        presets={"p": PRESET},
        experiments={},
        check=lambda config, origins: None,
        row=row,
    )
    return resolve(typed)


def micro_batches(*typed: str, row: str | None = None) -> int:
    number: int = resolved(*typed, row=row).config.training.accumulation
    return number


@pytest.mark.parametrize(
    ("batch", "number"),
    [(48, 4), (24, 2), (36, 3), (12, 1), (10, 1), (13, 1), (16, 2), (20, 2), (50, 2), (96, 4)],
)
def test_a_micro_batch_is_no_larger_than_usual_and_not_needlessly_small(batch, number):
    """The number divides the batch, and a larger batch is split as often as before."""
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
