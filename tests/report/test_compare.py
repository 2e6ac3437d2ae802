import json
from dataclasses import replace

import pytest
from tests.report.conftest import HARDWARE, RECORD, session, step, usual

from hotloop.core.plan import Plan
from hotloop.report.compare import (
    SCHEMA,
    Difference,
    differences,
    losses_in_words,
    speed,
    summary,
    why_losses_unlike,
    why_unlike,
)
from hotloop.report.facts import Facts, read_facts

CONFIG = RECORD["config"]
assert isinstance(CONFIG, dict)


@pytest.fixture
def run(made):
    def read(name: str, events: list[str] | None = None, plan: Plan | None = None, **changes):
        lines = usual(40) if events is None else events
        return read_facts(made(name, lines, **({"plan": plan} if plan else {}), **changes))

    return read


def test_only_what_differs_is_listed(run):
    a = run("a")
    b = run("b", config={**CONFIG, "seed": 2}, plan=Plan(micro_batch=8).plus("fused-adamw"))
    assert differences(a, b) == [
        Difference(kind="setting", key="seed", a="1", b="2"),
        Difference(kind="plan", key="micro batch", a="4", b="8"),
        Difference(kind="plan", key="sdpa", a="backend=auto", b="off"),
    ]
    assert differences(a, a) == []


def test_what_came_of_a_technique_both_asked_for_is_compared(run):
    refused = [{"technique": "fused-adamw", "word": "refused"}]
    [found] = differences(run("a"), run("b", effects=refused))
    assert (found.kind, found.key, found.a, found.b) == (
        "in effect", "fused-adamw", "in effect", "refused"
    )  # fmt: skip


def test_a_clear_difference_names_the_faster_run_and_by_how_much(run):
    a, b = run("a"), run("b", usual(40, seconds=0.05))
    for first, second, winner in ((a, b, "B"), (b, a, "A")):
        verdict = speed(first, second)
        assert verdict.faster == winner
        assert verdict.shown == f"{winner} is faster"
        assert "2 times" in verdict.why
        assert "one run each" in verdict.why


def other_machine(run: Facts, **changes: object) -> Facts:
    return replace(run, hardware=replace(HARDWARE, **changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "Other CPU"}, "name (Test CPU and Other CPU)"),
        ({"cores": 4.0}, "cores (2.0 and 4.0)"),
        ({"memory_bytes": None}, "memory_bytes (17179869184 and unknown)"),
        ({"versions": {"hotloop": "0.1.0", "torch": "2.14.0"}}, "torch (2.13.0 and 2.14.0)"),
    ],
)
def test_unlike_hardware_or_versions_are_never_compared_for_speed(run, changes, said):
    a, b = run("a"), run("b", usual(40, seconds=0.01))
    verdict = speed(a, other_machine(b, **changes))
    assert verdict.faster is None
    assert verdict.shown == "cannot be told"
    assert said in verdict.why


def test_unknown_hardware_is_not_taken_for_the_same(run):
    a = run("a")
    assert why_unlike(a, replace(a, hardware=None)) == "the hardware of a run is unknown"


@pytest.mark.parametrize(
    ("key", "value", "same"),
    [
        ("model.width", 32, False),
        ("objective", "diffusion", False),
        ("model.attention", "naive", True),
        ("training.batch_size", 8, True),
        ("seed", 2, True),
    ],
)
def test_a_token_must_be_the_same_work(run, key, value, same):
    a, b = run("a"), run("b", config={**CONFIG, key: value})
    assert (why_unlike(a, b) is None) == same


def test_two_recipes_are_not_compared(run):
    assert "recipes" in (why_unlike(run("a"), run("b", recipe="other")) or "")


def test_unsteady_and_missing_readings_cannot_be_compared(run):
    a = run("a")
    assert "B is unsteady: readings spread" in speed(a, run("b", usual(40, jitter=0.5))).why
    few = run("c", [session(), *(step(n, t=1 + n / 10) for n in range(1, 6))])
    assert "B is unsteady: only 2 readings" in speed(a, few).why
    assert "A has no step after its warm-up" in speed(run("d", []), a).why


def test_a_difference_within_the_quartiles_is_noise(run):
    verdict = speed(run("a", usual(60)), run("b", usual(60, seconds=0.1005)))
    assert verdict.faster is None
    assert "noise" in verdict.why
    assert "0.5%" in verdict.why


def test_losses_of_like_data_are_compared_and_one_run_is_called_one_run(run):
    a, b = run("a"), run("b", usual(40, loss=3.9))
    assert losses_in_words(a, b).startswith("B reaches 3.0000, 0.1 below the lowest of A.")
    assert "One run each" in losses_in_words(b, a)
    assert losses_in_words(a, a) == "both reach 3.1000."
    assert "no validation" in losses_in_words(a, run("c", []))


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {**CONFIG, "training.eval_batches": 3}},
        {"config": {**CONFIG, "model.context": 64}},
        {"data": {"fingerprint": "other"}},
    ],
)
def test_losses_that_measure_something_else_are_not_compared(run, changes):
    a, b = run("a"), run("b", **changes)
    assert why_losses_unlike(a, b) is not None
    assert losses_in_words(a, b).startswith("cannot be told")


def test_a_long_list_of_reasons_is_cut_short(run):
    a = run("a")
    many = {f"package{n}": "1" for n in range(50)}
    why = why_unlike(a, other_machine(a, versions=many))
    assert why is not None
    assert "and 48 more" in why


def test_the_figures_of_a_run_are_json_with_units(made):
    value = summary(read_facts(made("a", usual(40))))
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert value["schema"] == SCHEMA
    assert isinstance(value["runs"], list)
    [run] = value["runs"]
    assert run["status"] == "complete"
    assert run["figures"]["throughput"]["unit"] == "tokens/s"
    assert sum(run["wall"].values()) == run["figures"]["wall time"]["number"]
    assert "faster" not in value


def test_of_two_runs_it_says_what_differs_and_which_is_faster(made):
    a = read_facts(made("a", usual(40)))
    b = read_facts(made("b", usual(40, seconds=0.05), status="stopped"))
    value = summary(a, b)
    assert value["faster"] == "B"
    assert value["differences"] == []
    assert summary(a, read_facts(made("c", usual(40))))["faster"] is None
