from dataclasses import dataclass, field
from typing import Any

import pytest

from hotloop.config.common import ALIASES, Data, Preset, Training, check_shared, set_names
from hotloop.config.layers import SettingsLayer, parse_assignments
from hotloop.config.resolver import give_way
from hotloop.config.schema import flatten, settings_of
from hotloop.config.settings import Resolved, resolve
from hotloop.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    training: Training = field(default_factory=lambda: Training(max_steps=5000))
    data: Data = field(default_factory=Data)


def settled(*args: str, below: dict[str, object] | None = None) -> Resolved[Config]:
    layers = [SettingsLayer(origin="preset x", values=below or {}), parse_assignments(args)]
    first = resolve(Config, layers, ALIASES)
    return resolve(Config, [*layers, give_way(first)], ALIASES)


def changes(*args: str, below: dict[str, object] | None = None) -> dict[str, Any]:
    layers = [SettingsLayer(origin="preset x", values=below or {}), parse_assignments(args)]
    return dict(give_way(resolve(Config, layers, ALIASES)).values)


def refused(*args: str) -> str:
    resolved = settled(*args)
    config, origins = resolved.config, resolved.origins
    names = set_names(config, config.data.sets, origins)
    with pytest.raises(ConfigError) as caught:
        check_shared(config, origins, names)
    return str(caught.value)


def test_the_defaults_agree_with_each_other() -> None:
    check_shared(Config())
    assert changes() == {}


def test_every_default_is_a_value_its_own_rule_allows() -> None:
    rebuilt = resolve(Config, [SettingsLayer(origin="itself", values=flatten(Config()))]).config
    assert rebuilt == Config()


def test_every_setting_says_what_it_is() -> None:
    assert all(len(leaf.rule.meaning) > 5 for leaf in settings_of(Config).values())


def test_aliases_lead_to_settings() -> None:
    targets = set(ALIASES.values()) - {"model.context"}
    assert targets <= set(settings_of(Config))
    assert not set(ALIASES) & set(settings_of(Config))


def test_a_typed_number_of_epochs_is_not_cut_short_by_a_default() -> None:
    resolved = settled("training.epochs=3")
    assert resolved.config.training.max_steps is None
    assert resolved.origins["training.max_steps"] == (
        "was 5000 (default), gave way to training.epochs=3 (command line)"
    )
    assert resolved.requested == {"training.epochs"}


def test_typed_epochs_and_steps_both_stay() -> None:
    assert changes("training.epochs=3", "training.max_steps=10", "training.warmup_steps=1") == {}
    assert changes("training.epochs=null") == {}


def test_a_short_run_shortens_a_warm_up_nobody_asked_for() -> None:
    assert changes("training.max_steps=50") == {"training.warmup_steps": 5}
    assert changes("training.max_steps=5") == {"training.warmup_steps": 0}
    assert changes("training.max_steps=100") == {}
    assert changes("training.max_steps=50", below={"training.warmup_steps": 70}) == {
        "training.warmup_steps": 5
    }


def test_a_low_learning_rate_lowers_an_end_nobody_asked_for() -> None:
    assert changes("training.learning_rate=5e-5") == {
        "training.min_learning_rate": pytest.approx(5e-6)
    }
    assert changes("training.learning_rate=5e-5", "training.schedule=constant") == {}


def test_the_way_to_validate_that_was_asked_for_wins() -> None:
    assert changes("training.eval_every_epochs=1") == {"training.eval_every_steps": None}
    below = {"training.eval_every_epochs": 1}
    assert changes("training.eval_every_steps=9", below=below) == {
        "training.eval_every_epochs": None
    }
    assert changes("training.eval_every_epochs=null") == {}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["training.max_steps=null"], "training has no end: set training.epochs or"),
        (
            ["training.accumulation=3"],
            "training.batch_size=64 (default) is not divisible by training.accumulation=3"
            " (command line)",
        ),
        (
            ["training.max_steps=50", "training.warmup_steps=60"],
            "training.warmup_steps=60 (command line) is more than training.max_steps=50",
        ),
        (["training.warmup_steps=6000"], "is more than training.max_steps=5000 (default)"),
        (
            ["training.learning_rate=1e-5", "training.min_learning_rate=1e-4"],
            "training.min_learning_rate=0.0001 (command line) is above training.learning_rate=",
        ),
        (
            ["training.eval_every_steps=9", "training.eval_every_epochs=1"],
            "set one of them to null",
        ),
        (
            ["training.patience=3", "training.eval_every_steps=null"],
            "training.patience=3 (command line) needs validation",
        ),
        (["data.sets={all: x}"], "'all' cannot be a set's name"),
        (["data.sets.../../etc=x"], "'../../etc' cannot be a set's name"),
        (["data.sets={a/b: x}"], "'a/b' cannot be a set's name"),
        (["data.sets={'%2e%2e': x}"], "'%2e%2e' cannot be a set's name"),
        (["data.sets={'C:': x}"], "'C:' cannot be a set's name"),
        (["data.sets={<script>: x}"], "'<script>' cannot be a set's name"),
    ],
)
def test_contradictions_name_keys_values_and_origins(args: list[str], message: str) -> None:
    assert message in refused(*args)


def test_all_contradictions_are_told_at_once() -> None:
    args = ["training.max_steps=null", "training.accumulation=5", "data.sets={all: x}"]
    assert len(refused(*args).splitlines()) == 3


def test_a_configuration_made_in_python_is_checked_without_origins() -> None:
    config = Config(training=Training(max_steps=10, warmup_steps=20))
    with pytest.raises(ConfigError, match=r"^training\.warmup_steps=20 is more than training\.max"):
        check_shared(config)


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("memory_fraction", ["1", "0.5", "null"], ["0", "1.1", "-1"]),
        ("learning_rate", ["1e-3", "1"], ["0", "-1", "nan", "null"]),
        ("betas", ["[0,0.999]"], ["[0.9,1]", "[-0.1,0.9]", "0.9", "[0.9]"]),
        ("keep", ["2", "5"], ["1", "0"]),
        ("gradient_clip", ["0", "1.5"], ["-1"]),
        ("max_time", ["11h", "90m", "1h30m", "45s", "60", "null"], ["0", "-1h", "soon"]),
        ("precision", ["auto", "bf16"], ["bfloat16", "null"]),
        ("use_compile", ["auto", "true", "False"], ["on", "yes", "1"]),
        ("epochs", ["1", "1.5", "null"], ["0", "-1", "true"]),
    ],
)
def test_ranges(key: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        resolve(Config, [parse_assignments([f"training.{key}={value}"])])
    for value in bad:
        with pytest.raises(ConfigError, match=rf"training\.{key}: expected"):
            resolve(Config, [parse_assignments([f"training.{key}={value}"])])


def test_a_preset_says_its_source_and_reason() -> None:
    preset = Preset(
        source="measured", values={"training.keep": 3}, reasons={"training.keep": "why"}
    )
    resolved = resolve(Config, [preset.layer("preset p")])
    assert resolved.origins["training.keep"] == "preset p (measured): why"
    assert resolved.given() == {}
