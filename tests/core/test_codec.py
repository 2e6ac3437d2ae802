import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pytest

from hotloop.core.codec import from_json, to_json
from hotloop.core.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    value: float
    kind: Literal["a", "b"] = "a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    name: str
    pair: tuple[int, float] = (1, 2.0)
    many: tuple[Inner, ...] = ()
    one: Inner | None = None
    named: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    on: bool = False


FULL = Outer(
    name="x",
    pair=(3, 0.5),
    many=(Inner(value=1.0), Inner(value=math.inf, kind="b")),
    one=Inner(value=-math.inf),
    named={"a": (1.0, 2.0)},
    on=True,
)


def test_what_is_written_is_read_back():
    raw = to_json(FULL)
    assert raw["many"][1] == {"value": "inf", "kind": "b"}, "JSON has no word for infinity"
    assert from_json(Outer, raw) == FULL
    assert from_json(Outer, {"name": "x"}) == Outer(name="x"), "absent fields take their default"
    assert math.isnan(from_json(Inner, to_json(Inner(value=math.nan))).value)
    assert from_json(Inner, {"value": 3}) == Inner(value=3.0), "JSON writes 3.0 as 3 here and there"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": 3}, "outer.name: expected str, got 3"),
        ({"nam": "x"}, "outer has no field 'nam'; did you mean name"),
        ({"many": {}}, "outer.many: expected a list, got dict"),
        ({"pair": [1]}, "outer.pair: expected 2 values, got 1"),
        ({"pair": [1, "x"]}, r"outer.pair\[1\]: expected float, got 'x'"),
        ({"many": [{"value": 1.0, "kind": "c"}]}, r"outer.many\[0\].kind: expected one of a, b"),
        ({"many": [{}]}, r"outer.many\[0\]: .*value"),
        ({"one": []}, "outer.one: expected an object, got list"),
        ({"named": []}, "outer.named: expected an object, got list"),
        ({"named": {"a": [None]}}, r"outer.named.a\[0\]: expected float, got None"),
        ({"on": 1}, "outer.on: expected bool, got 1"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(change, said):
    with pytest.raises(DataError, match=said):
        from_json(Outer, {"name": "x"} | change)


def test_what_is_no_object_is_said():
    with pytest.raises(DataError, match="outer: expected an object, got list"):
        from_json(Outer, [])


def test_numbers_of_numpy_are_numbers():
    @dataclass
    class Facts:
        size: object
        shares: object

    written = to_json(Facts(size=np.int64(3), shares=[np.float32(1.5), np.bool_(True), {"x": 1}]))
    assert json.loads(json.dumps(written)) == {"size": 3, "shares": [1.5, True, {"x": 1}]}
