import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from hotloop.config.schema import flatten, setting, setting_text, settings_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    rate: float = setting(0.5, "a rate", low=0, high=1)
    pair: tuple[float, float] = setting((0.1, 0.2), "two")
    names: Mapping[str, str] = setting({}, "names")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    seed: int = setting(1, "a seed")
    wait: float | None = setting(None, "a time", duration=True)
    inner: Inner = field(default_factory=lambda: Inner(rate=0.25))


def test_leaves_stand_in_the_order_they_were_declared() -> None:
    leaves = settings_of(Outer)
    assert list(leaves) == ["seed", "wait", "inner.rate", "inner.pair", "inner.names"]
    assert leaves["inner.rate"].kind is float
    assert leaves["inner.rate"].rule.high == 1
    assert [leaf.key for leaf in leaves.values() if leaf.is_map] == ["inner.names"]


def test_a_flat_configuration_is_json_and_shares_nothing() -> None:
    config = Outer(inner=Inner(names={"a": "b"}))
    flat = flatten(config)
    assert json.loads(json.dumps(flat)) == flat
    assert flat["inner.pair"] == [0.1, 0.2]
    flat["inner.names"]["c"] = "d"
    assert config.inner.names == {"a": "b"}


def test_each_configuration_has_its_own_default_map() -> None:
    assert Inner().names == {}
    assert Inner().names is not Inner().names


def test_a_setting_is_told_with_its_value_and_origin() -> None:
    config = Outer(wait=5400.0)
    assert setting_text(config, "wait", {"wait": "command line"}) == "wait=1h30m (command line)"
    assert setting_text(config, "inner.rate", {}) == "inner.rate=0.25"
