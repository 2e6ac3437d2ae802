"""The presets quick and best, and defaults that depend on other settings."""

import pytest

from hotloop.config.layers import SettingsLayer
from hotloop.config.schema import flatten
from hotloop.config.settings import rebuild
from hotloop.core.errors import ConfigError
from hotloop.core.hardware import Hardware
from hotloop.recipes.registry import RECIPES

TEXTS = ("model.name=m", "data.path=rows.jsonl")


def auto():
    return SettingsLayer(origin="auto (12 GiB)", values={"training.accumulation": 2})


@pytest.mark.parametrize("effort", ["quick", "best"])
@pytest.mark.parametrize("name", RECIPES)
def test_an_effort_is_added_to_what_the_machine_asks_for_and_gives_way_to_the_user(name, effort):
    resolve, words = RECIPES[name].resolve, () if name == "char-lm" else TEXTS
    resolved = resolve([*words, f"preset={effort}"], auto_layer=auto)
    assert resolved.origins["training.accumulation"] == "auto (12 GiB)"
    for key, value in resolve.efforts[effort].values.items():
        section, _, field = key.partition(".")
        assert getattr(getattr(resolved.config, section), field) == value
        assert resolved.origins[key].startswith(f"preset {effort} (rule): ")
        assert len(resolve.efforts[effort].reasons[key]) > 10
        typed = resolve([*words, f"preset={effort}", f"{key}=7"], auto_layer=auto)
        assert getattr(getattr(typed.config, section), field) == 7


def test_patience_that_nobody_typed_gives_way_to_no_validation():
    resolve = RECIPES["chat-sft"].resolve
    words = [*TEXTS, "preset=best", "training.eval_every_epochs=null"]
    assert resolve(words).config.training.patience is None
    with pytest.raises(ConfigError, match=r"patience=2 .* needs validation"):
        resolve([*words, "training.patience=2"])


@pytest.mark.parametrize("name", RECIPES)
def test_quick_trains_for_less_and_best_for_longer(name):
    resolve, words = RECIPES[name].resolve, () if name == "char-lm" else TEXTS
    trainings = [
        resolve([*words, *more]).config.training for more in (["preset=quick"], [], ["preset=best"])
    ]
    key = "max_steps" if name == "char-lm" else "epochs"
    lengths = [getattr(training, key) for training in trainings]
    assert lengths == sorted(set(lengths))


@pytest.mark.parametrize(
    ("words", "rate", "origin"),
    [
        (["pair-classifier"], 5e-5, "default"),
        (["pair-classifier", "adapter.method=dora"], 5e-4, "default of adapter.method=dora"),
        (["pair-classifier", "adapter.method=ia3"], 3e-3, "default of adapter.method=ia3"),
        (["expert-sft", "adapter.method=ia3"], 3e-3, "default of adapter.method=ia3"),
        (["chat-sft"], 2e-4, "default"),
        (["expert-sft", "adapter.method=none"], 2e-5, "default of adapter.method=none"),
        (["chat-sft", "adapter.method=none", "training.lr=0.1"], 0.1, "command line"),
        (["chat-sft", "adapter.method=none", "training.min_learning_rate=5e-5"], 2e-4, "default"),
    ],
)
def test_the_learning_rate_follows_from_what_is_trained(words, rate, origin):
    resolved = RECIPES[words[0]].resolve([*TEXTS, *words[1:]])
    assert resolved.config.training.learning_rate == rate
    assert resolved.origins["training.learning_rate"].startswith(origin)


def test_the_batch_of_a_classifier_does_not_depend_on_the_gpu():
    resolve = RECIPES["pair-classifier"].resolve
    sizes = {preset.values["training.batch_size"] for preset in resolve.presets.values()}
    for gib in (6, 12, 24, 80):
        gpu = Hardware(device="cuda", name="gpu", memory_bytes=gib << 30)
        sizes.add(RECIPES["pair-classifier"].auto(gpu).values["training.batch_size"])
    assert sizes == {32}


def test_a_run_from_before_rows_came_in_random_order_keeps_its_order():
    schema = RECIPES["task-router"].resolve.schema
    flat = flatten(schema())
    assert not rebuild(schema, flat, "run.json").data.group_by_length
    del flat["data.group_by_length"]
    assert rebuild(schema, flat, "run.json").data.group_by_length
