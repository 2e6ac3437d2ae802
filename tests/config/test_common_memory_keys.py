from dataclasses import replace
from pathlib import Path

from hotloop.config.common import NOTHING_TO_MEMORY, deciding
from hotloop.config.schema import settings_of
from hotloop.data.readers.clean_text import find_texts
from hotloop.data.tokenising.char_corpus import TokenSet, prepare
from hotloop.jobs.forecast.memory_forecast import Forecast, forecast
from hotloop.recipes.char_lm.config import CharLmConfig, resolve_char_lm
from hotloop.recipes.char_lm.recipe import build

SMALL = ["preset=cpu", "model.layers=1", "model.heads=2", "model.width=16", "model.context=16"]
OTHER = [  # each setting that a step could notice, at another value
    "seed=7",
    "training.learning_rate=0.5",
    "training.min_learning_rate=0.25",
    "training.schedule=constant",
    "training.warmup_steps=3",
    "training.weight_decay=0",
    "training.betas=[0.5, 0.6]",
    "training.gradient_clip=0",
    "training.max_steps=9",
    "training.eval_batches=2",
    "training.patience=3",
    "data.drop_last=true",
]


def config(*more: str) -> CharLmConfig:
    resolved = resolve_char_lm([*SMALL, *more])
    assert isinstance(resolved.config, CharLmConfig)
    return resolved.config


def tokens(corpus: Path, cache: Path) -> TokenSet:
    return prepare(find_texts(str(corpus)), cache=cache, validation_share=0.1)


def test_every_listed_key_is_a_setting() -> None:
    assert settings_of(CharLmConfig).keys() >= NOTHING_TO_MEMORY


def test_the_model_and_the_objective_decide() -> None:
    keys = deciding(config()).keys()
    assert {"objective", *(key for key in settings_of(CharLmConfig) if "model." in key)} <= keys
    assert deciding(config()) != deciding(config("model.dropout=0.5"))


def test_what_is_said_not_to_decide_does_not(corpus: Path, tmp_path: Path) -> None:
    def told(*more: str) -> Forecast:
        job = build(config(*more), tokens(corpus, tmp_path))
        return replace(forecast(job, micro_batch=2), seconds=0.0)

    assert deciding(config(*OTHER)) == deciding(config())
    assert told(*OTHER) == told()
