import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.config.layers import (
    COMMAND_LINE,
    SettingsLayer,
    parse_assignments,
    parse_json,
    parse_yaml,
)
from hotloop.config.schema import flatten, setting
from hotloop.config.settings import DEFAULT, Resolved, differences, rebuild, resolve
from hotloop.core.errors import ConfigError

ALIASES = {"training.lr": "training.learning_rate", "training.num_epochs": "training.epochs",
           "data.block_size": "model.context"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Train:
    epochs: int | None = setting(None, "epochs", low=1)
    batch_size: int = setting(64, "samples", low=1)
    learning_rate: float = setting(1e-3, "peak", low=0, low_open=True)
    betas: tuple[float, float] = setting((0.9, 0.99), "averaging", low=0, high=1, high_open=True)
    precision: Literal["auto", "bf16"] = setting("auto", "type")
    save_every: float = setting(600.0, "time", low=0, low_open=True, duration=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    path: str | None = setting(None, "path")
    sets: Mapping[str, str] = setting({}, "sets")
    drop_last: bool = setting(False, "drop")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    seed: int = setting(1337, "seed", low=0)
    training: Train = field(default_factory=lambda: Train(epochs=7))
    data: Data = field(default_factory=Data)


def typed(*args: str) -> Resolved[Config]:
    return resolve(Config, [parse_assignments(args)], ALIASES)


def refused(*args: str) -> str:
    with pytest.raises(ConfigError) as caught:
        typed(*args)
    return str(caught.value)


def test_nothing_given_is_the_schema_as_declared() -> None:
    resolved = resolve(Config, [])
    assert resolved.config == Config()
    assert set(resolved.origins.values()) == {DEFAULT}
    assert resolved.given() == {}


def test_the_last_layer_wins_and_every_value_knows_its_origin() -> None:
    layers = [
        SettingsLayer(
            origin="preset 12gb",
            values={"training.batch_size": 96, "training.precision": "bf16", "seed": 1},
            origins={"training.precision": "preset 12gb: bf16 from sm80"},
        ),
        parse_yaml(b"training:\n  batch_size: 32\n  save_every: 90m\n", "my.yaml"),
        parse_assignments(["training.batch_size=16"]),
    ]
    resolved = resolve(Config, layers)
    assert resolved.config.training.batch_size == 16
    assert resolved.config.training.save_every == 5400
    assert resolved.config.training.epochs == 7
    assert resolved.origins["training.batch_size"] == COMMAND_LINE
    assert resolved.origins["training.save_every"] == "my.yaml:3"
    assert resolved.origins["training.precision"] == "preset 12gb: bf16 from sm80"
    assert resolved.origins["seed"] == "preset 12gb"
    assert resolved.origins["training.epochs"] == DEFAULT
    assert resolved.requested == {"training.batch_size", "training.save_every"}
    assert resolved.given() == {"training.batch_size": 16, "training.save_every": 5400}


def test_a_layer_above_the_user_takes_the_asking_back() -> None:
    rule = SettingsLayer(origin="rule", values={"seed": 2})
    resolved = resolve(Config, [parse_assignments(["seed=1"]), rule])
    assert (resolved.config.seed, resolved.requested) == (2, frozenset())


@pytest.mark.parametrize(
    ("arg", "hint"),
    [
        ("traning.batch_size=1", "; did you mean training.batch_size?"),
        ("batch_size=1", "; did you mean training.batch_size?"),
        ("training.batchsize=1", "; did you mean training.batch_size?"),
        ("lr=1", "; did you mean training.learning_rate?"),
        ("trainig.batchsize=1", "; did you mean training.batch_size?"),
        ("sed=1", "; did you mean seed?"),
        ("data.foo=1", "; data takes path, sets, drop_last"),
        ("zzzz=1", "; the top level takes seed, training, data"),
        ("zzzz.y=1", "; known: seed, training, data"),
        ("_target_=os.system", "the top level takes"),
        ("training.=1", "; training takes epochs"),
        (".=1", "takes seed"),
        ("data={zzz: {}}", "; data takes path"),
    ],
)
def test_an_unknown_key_is_named_with_what_was_probably_meant(arg: str, hint: str) -> None:
    message = refused(arg)
    assert message.startswith("command line: unknown key '")
    assert hint in message


def test_the_message_of_the_misspelt_key() -> None:
    assert refused("traning.batch_size=1") == (
        "command line: unknown key 'traning.batch_size'; did you mean training.batch_size?"
    )
    with pytest.raises(ConfigError, match=r"^my\.yaml:3: unknown key 'training\.batchsize'"):
        resolve(Config, [parse_yaml(b"seed: 1\ntraining:\n  batchsize: 2\n", "my.yaml")])


def test_an_alias_whose_target_a_recipe_lacks_is_an_unknown_key() -> None:
    assert "unknown key 'data.block_size'" in refused("data.block_size=64")


def test_wrong_types_and_ranges_name_key_place_and_what_is_allowed() -> None:
    assert refused("training.batch_size=0") == (
        "command line: training.batch_size: expected a whole number from 1, got 0"
    )
    with pytest.raises(ConfigError) as caught:
        resolve(Config, [parse_yaml(b"training:\n  learning_rate: fast\n", "my.yaml")])
    assert str(caught.value) == (
        "my.yaml:2: training.learning_rate: expected a number above 0, got fast"
    )
    with pytest.raises(ConfigError, match=r"got '16'"):
        resolve(Config, [parse_json(b'{"training": {"batch_size": "16"}}', "my.json")])
    assert "got ${oc.env:X}" not in refused("data.path=${oc.env:X}")
    assert "is an interpolation" in refused("data.path=${oc.env:X}")


def test_every_problem_is_told_at_once() -> None:
    lines = refused("training.batch_size=0", "sed=1", "training.precision=bf61").splitlines()
    assert len(lines) == 3
    assert all(line.startswith("command line: ") for line in lines)


def test_a_section_is_no_value_and_a_value_no_section() -> None:
    message = refused("training=5")
    assert "training is a section" in message
    assert "epochs, batch_size" in message
    assert message.endswith("got 5")
    assert refused("training.batch_size.x=5") == (
        "command line: training.batch_size is one value (a whole number from 1), not a section"
    )
    assert "not a section" in refused("training.batch_size={x: 5}")
    assert "expected a whole number from 1, got {}" in refused("training.batch_size={}")
    assert "training is a section" in refused("training=null")
    assert typed("training={}").config == Config()
    assert typed("training={batch_size: 5}").config.training.batch_size == 5


def test_aliases_become_their_targets_and_are_shown() -> None:
    resolved = typed("training.num_epochs=3", "training.lr=1e-4")
    assert resolved.config.training.epochs == 3
    assert resolved.config.training.learning_rate == 1e-4
    assert resolved.renamed[0] == ("training.num_epochs", "training.epochs", COMMAND_LINE)
    assert resolved.origins["training.epochs"] == COMMAND_LINE
    row = next(row for row in resolved.rows() if row.key == "training.epochs")
    assert row == ("training.epochs", "3", "command line, written training.num_epochs", "epochs")


@pytest.mark.parametrize("reverse", [False, True])
def test_an_alias_beside_its_target_is_refused(reverse: bool) -> None:
    args = ["training.num_epochs=3", "training.epochs=3"]
    message = refused(*(reversed(args) if reverse else args))
    assert "training.num_epochs" in message
    assert "are the same setting; keep one" in message


def test_a_higher_layer_may_spell_it_anew() -> None:
    file = parse_yaml(b"training: {num_epochs: 3}", "my.yaml")
    resolved = resolve(Config, [file, parse_assignments(["training.epochs=5"])], ALIASES)
    assert resolved.config.training.epochs == 5
    assert resolved.renamed == ()


def test_a_map_is_replaced_whole_by_the_last_layer_that_names_it() -> None:
    file = parse_yaml(b"data:\n  sets: {a: a.txt, b: b.txt}\n", "my.yaml")
    by_entry = resolve(Config, [file, parse_assignments(["data.sets.c=c.txt", "data.sets.d.e=d"])])
    assert by_entry.config.data.sets == {"c": "c.txt", "d.e": "d"}
    assert by_entry.origins["data.sets"] == COMMAND_LINE
    assert resolve(Config, [file]).origins["data.sets"] == "my.yaml:2"
    assert resolve(Config, [file, parse_assignments(["data.sets={}"])]).config.data.sets == {}
    assert "expected a map {name: text}, got x" in refused("data.sets=x")


def test_rows_show_every_setting_as_it_would_be_typed() -> None:
    resolved = typed("training.save_every=90m", "data.sets={a: b.txt}", "data.path='null'")
    shown = {row.key: row.value for row in resolved.rows()}
    assert list(shown) == list(flatten(resolved.config))
    assert shown["training.save_every"] == "1h30m"
    assert shown["training.betas"] == "[0.9, 0.99]"
    assert shown["data.path"] == "'null'"
    assert typed(*(f"{key}={value}" for key, value in shown.items())).config == resolved.config


def test_a_configuration_survives_run_json() -> None:
    config = typed("data.sets={a.b: x}", "training.epochs=null", "data.drop_last=true").config
    flat = json.loads(json.dumps(flatten(config)))
    assert rebuild(Config, flat, "run.json") == config


def test_a_setting_that_an_older_run_lacks_has_its_default() -> None:
    flat = flatten(Config(seed=5))
    del flat["training.betas"]
    assert rebuild(Config, flat, "run.json") == Config(seed=5)


def test_a_tampered_run_json_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"run\.json: seed: expected a whole number"):
        rebuild(Config, {**flatten(Config()), "seed": "1; import os"}, "run.json")
    with pytest.raises(ConfigError, match=r"run\.json: unknown key"):
        rebuild(Config, {"__class__": "x"}, "run.json")


def test_differences_name_key_and_both_values() -> None:
    saved = flatten(typed("training.batch_size=12").config)
    asked = typed("training.batch_size=16", "training.betas=[0.9, 0.99]", "data.path=x").given()
    assert differences(saved, asked) == [
        "training.batch_size: run has 12, asked 16",
        "data.path: run has null, asked x",
    ]
    assert differences(saved, saved) == []
    assert differences({}, {"seed": 1}) == ["seed: run has null, asked 1"]


keys = (
    st.sampled_from([*flatten(Config()), *ALIASES, "training", "data.sets.a", "sed", "."])
    | st.text()
)
words = st.text() | st.sampled_from(
    ["1", "null", "1e-3", "true", "1h", "[0.9, 0.9]", "{a: b}", "bf16"]
)


@given(st.dictionaries(keys, words, max_size=4))
@settings(max_examples=100, deadline=None)
def test_any_arguments_give_a_configuration_or_a_config_error(pairs: dict[str, str]) -> None:
    args = [f"{key}={value}" for key, value in pairs.items() if key.partition("=")[0]]
    resolved = error = None
    try:
        resolved = typed(*args)
    except ConfigError as caught:
        error = caught
    assert all(line.isprintable() for line in str(error).split("\n"))
    if resolved is not None:
        assert (
            rebuild(Config, json.loads(json.dumps(flatten(resolved.config))), "x")
            == resolved.config
        )
