import contextlib
import json
import re
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotloop.core.errors import PlanError
from hotloop.core.plan import SCHEMA, Plan, Use
from hotloop.core.storage.files import read_json, write_json

VALUES = (
    st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
)
CHOICES = st.dictionaries(st.text(), VALUES, max_size=3)
PLANS = st.builds(
    lambda micro, accumulation, uses: Plan(
        micro_batch=micro,
        accumulation=accumulation,
        techniques=tuple(Use(id, tuple(choice.items())) for id, choice in uses.items()),
    ),
    st.integers(1, 2**40),
    st.integers(1, 2**40),
    st.dictionaries(st.text(), CHOICES, max_size=4),
)
PLAN = Plan(micro_batch=16, accumulation=4).plus("tf32").plus("compile", mode="default", blocks=2)


def raw(**changes):
    plain = {"schema": SCHEMA, "micro_batch": 16}
    return {key: value for key, value in {**plain, **changes}.items() if value is not None}


@given(PLANS)
def test_a_plan_survives_json(plan):
    again = Plan.from_json(json.loads(json.dumps(plan.to_json(), allow_nan=False)))
    assert again == plan
    assert hash(again) == hash(plan)
    assert again.fingerprint == plan.fingerprint
    assert again.differences(plan) == []
    assert again.to_json() == plan.to_json()


@given(PLANS, PLANS)
def test_no_differences_means_the_same_fingerprint(one, other):
    assert (one.differences(other) == []) == (one.fingerprint == other.fingerprint)
    assert len(one.differences(other)) == len(other.differences(one))


@given(PLANS, st.randoms(use_true_random=False))
def test_order_says_nothing(plan, draw):
    def shuffled(value):
        if not isinstance(value, dict):
            return value
        items = [(key, shuffled(item)) for key, item in value.items()]
        draw.shuffle(items)
        return dict(items)

    other = Plan.from_json(shuffled(plan.to_json()))
    assert other == plan
    assert other.fingerprint == plan.fingerprint


def test_a_fingerprint_is_the_same_on_any_machine():
    assert PLAN.fingerprint == "35cb66482f21"
    assert re.fullmatch("[0-9a-f]{12}", Plan(micro_batch=1).fingerprint)


def test_a_plan_survives_a_file(tmp_path):
    write_json(tmp_path / "plan.json", PLAN.to_json())
    assert Plan.from_json(read_json(tmp_path / "plan.json")) == PLAN


def test_values_that_python_holds_equal_differ():
    plans = [Plan(micro_batch=1).plus("a", x=value) for value in (1, 1.0, True)]
    assert len({plan.fingerprint for plan in plans}) == 3
    assert plans[0].differences(plans[2]) == ["a: {'x': 1} -> {'x': True}"]


def test_differences_are_a_line_each():
    other = Plan(micro_batch=32, accumulation=4).plus("compile", mode="default").plus("sdpa")
    assert PLAN.differences(other) == [
        "compile: {'blocks': 2, 'mode': 'default'} -> {'mode': 'default'}",
        "micro_batch: 16 -> 32",
        "sdpa: off -> on",
        "tf32: on -> off",
    ]


def test_plus_and_minus_make_new_plans():
    assert PLAN.choice("compile") == {"mode": "default", "blocks": 2}
    assert PLAN.choice("tf32") == {}
    assert PLAN.choice("sdpa") is None
    assert PLAN.plus("compile", mode="x").choice("compile") == {"mode": "x"}
    assert PLAN.minus("compile").choice("compile") is None
    assert PLAN.minus("compile") == PLAN.minus("compile").minus("compile")
    assert PLAN.minus("compile").plus("compile", blocks=2, mode="default") == PLAN
    assert PLAN.choice("compile") == {"mode": "default", "blocks": 2}


def test_a_plan_is_frozen_and_hashable():
    with pytest.raises(FrozenInstanceError):
        PLAN.micro_batch = 1
    assert len({PLAN, PLAN.plus("tf32"), PLAN.minus("tf32")}) == 2


def test_any_name_can_be_that_of_a_choice():
    choice = {"id": 1, "cls": 2, "self": 3}
    assert dict(Use.of("a", **choice).choice) == choice
    assert Plan(micro_batch=1).plus("a", **choice).choice("a") == choice
    assert Plan.from_json(raw(techniques={"a": choice})).choice("a") == choice


def test_uses_read_as_they_are_typed():
    assert str(Use.of("tf32")) == "tf32"
    assert str(Use.of("compile", mode="default", blocks=2)) == "compile(blocks=2, mode=default)"
    assert Use("a", (("y", 1), ("x", 2))) == Use.of("a", x=2, y=1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"micro_bach": 3},
            r"unknown key .micro_bach. in a plan; did you mean micro_batch\?; its keys",
        ),
        ({"zzz": 3}, "unknown key 'zzz' in a plan; its keys are schema, micro_batch"),
        ({"schema": 2}, "a plan's schema is 2, this version reads 1"),
        ({"schema": None}, "a plan's schema is None"),
        ({"schema": True}, "a plan's schema is True"),
        ({"schema": 1.0}, "a plan's schema is 1.0"),
        ({"micro_batch": None}, "must be whole numbers, not None, 1 and 1"),
        ({"micro_batch": "16"}, "must be whole numbers, not '16', 1 and 1"),
        ({"micro_batch": 16.0}, "must be whole numbers, not 16.0, 1 and 1"),
        ({"micro_batch": True}, "must be whole numbers, not True, 1 and 1"),
        ({"accumulation": [1]}, r"must be whole numbers, not 16, \[1\] and 1"),
        ({"micro_batch": 0}, "1 or more, not 0, 1 and 1"),
        ({"accumulation": -1}, "1 or more, not 16, -1 and 1"),
        ({"techniques": ["tf32"]}, r"must map an id to its choices, not be \['tf32'\]"),
        ({"techniques": {"tf32": True}}, "technique 'tf32' of a plan must map to its choices, not"),
        ({"techniques": {"a": {"x": [1]}}}, "choice 'x' of technique a must be a word or number"),
        ({"techniques": {"a": {"x": 1e999}}}, "choice 'x' of technique a must be finite, not inf"),
    ],
)
def test_a_plan_is_read_strictly(changes, words):
    with pytest.raises(PlanError, match=words):
        Plan.from_json(raw(**changes))


def test_a_technique_named_twice_is_refused():
    with pytest.raises(PlanError, match="names a technique twice: a, b"):
        Plan(micro_batch=1, techniques=tuple(map(Use.of, "babac")))


@given(st.recursive(VALUES | st.none(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_no_json_crashes_the_reader(value):
    for plan in (value if isinstance(value, dict) else {}, raw(techniques=value)):
        with contextlib.suppress(PlanError):
            Plan.from_json(plan)


@pytest.mark.parametrize(
    ("ranks", "micro_batch", "accumulation"),
    [(1, 12, 4), (2, 12, 2), (3, 8, 2), (4, 12, 1), (8, 6, 1)],
)
def test_over_keeps_the_batch_and_never_grows_the_micro_batch(ranks, micro_batch, accumulation):
    plan = Plan(micro_batch=12, accumulation=4).over(ranks, 48)
    assert (plan.ranks, plan.micro_batch, plan.accumulation) == (ranks, micro_batch, accumulation)
    assert plan.micro_batch * plan.accumulation * plan.ranks == 48


def test_over_takes_what_does_not_divide_rounded_up():
    plan = Plan(micro_batch=32).over(3, 32)  # shares of 11, 11 and 10
    assert (plan.micro_batch, plan.accumulation) == (11, 1)


def test_ranks_stand_in_json_where_there_are_several():
    assert "ranks" not in Plan(micro_batch=4).to_json()
    two = Plan(micro_batch=4, ranks=2)
    assert Plan.from_json(two.to_json()) == two
    assert two.differences(Plan(micro_batch=4)) == ["ranks: 2 -> off"]
    with pytest.raises(PlanError, match="whole numbers, not 4, 1 and True"):
        Plan.from_json({"schema": 1, "micro_batch": 4, "ranks": True})


@given(st.integers(1, 64), st.integers(1, 12), st.integers(1, 100), st.integers(1, 9))
def test_a_plan_over_ranks_makes_the_batch_rounded_up(micro_batch, accumulation, batch, ranks):
    plan = Plan(micro_batch=micro_batch, accumulation=accumulation)
    shared = replace(plan, ranks=ranks + 1).over(ranks, batch)
    assert shared.makes(batch)
    assert not replace(shared, accumulation=shared.accumulation + 1).makes(batch)


def test_a_plan_does_not_make_another_batch():
    plan = Plan(micro_batch=4, accumulation=2, ranks=2)
    assert [plan.makes(batch) for batch in (8, 9, 13, 16, 17)] == [False, True, True, True, False]
