from dataclasses import replace

import pytest
from benchmarks.measure import FEWEST, Bench, Goal, Load, interleave, interval, judge, options
from benchmarks.turns import NotRun

AT_MOST = Goal(text="half of b", row="a", quantity="s", against="b", limit=0.5)


def against_one(*values: float) -> dict[str, dict[str, list[float]]]:
    """Readings whose ratios are `values`, repeated until there are enough."""
    many = list(values) * FEWEST
    return {"a": {"s": many}, "b": {"s": [1.0] * len(many)}}


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((0.4, 0.4, 0.49), "REACHED"),
        ((0.6, 0.6, 0.6), "MISSED by 20%"),
        ((0.4, 0.45, 0.6), "UNKNOWN: the quartiles are on both sides"),
    ],
)
def test_a_goal_is_reached_missed_or_unknown_by_its_quartiles(ratios, verdict):
    assert judge(AT_MOST, against_one(*ratios))["verdict"] == verdict


def test_a_goal_may_be_judged_by_the_interval_of_its_median():
    wide = against_one(0.3, 0.3, 0.45, 0.45, 0.45, 0.45, 0.45, 0.6, 0.6, 0.6)
    assert judge(AT_MOST, wide)["verdict"] == "UNKNOWN: the quartiles are on both sides"
    goal = replace(AT_MOST, judged="interval")
    assert judge(goal, wide)["verdict"] == "REACHED"
    split = against_one(0.3, 0.6)
    assert judge(goal, split)["verdict"] == "UNKNOWN: the interval is on both sides"


def test_the_interval_of_a_median_narrows_with_n_and_is_the_same_each_time():
    few, many = interval([1.0, 2.0, 3.0] * 4), interval([1.0, 2.0, 3.0] * 200)
    assert few[0] < few[1] == 2.0 < few[2]
    assert many == (2.0, 2.0, 2.0)
    assert interval([1.0, 2.0, 3.0] * 4) == few


def test_at_least_turns_the_quartiles_round():
    goal = Goal(text="", row="a", quantity="s", against="b", bound="at least", limit=2.0)
    assert judge(goal, against_one(2.1, 2.2))["verdict"] == "REACHED"
    assert judge(goal, against_one(1.5, 1.6))["verdict"] == "MISSED by 22%"


def test_few_pairs_are_unknown_however_clear():
    few = {name: {"s": row["s"][: FEWEST - 1]} for name, row in against_one(0.1).items()}
    assert judge(AT_MOST, few)["verdict"].startswith("UNKNOWN: 19 pairs")


def test_a_goal_against_a_row_that_was_not_run_is_not_measured():
    readings = against_one(0.1)
    del readings["b"]
    assert judge(AT_MOST, readings)["verdict"] == "not measured: b not run"


def test_a_difference_and_a_bare_value_are_judged_as_such():
    readings = against_one(1.4)
    difference = Goal(text="", row="a", quantity="s", against="b", relation="difference", limit=0.5)
    assert judge(difference, readings)["value"][1] == pytest.approx(0.4)
    assert judge(Goal(text="", row="a", quantity="s", limit=1.0), readings)["value"][1] == 1.4


def test_rows_are_taken_by_turns_and_warm_rounds_are_thrown_away():
    order: list[str] = []

    def row(name):
        def lap():
            order.append(name)
            return {"s": float(len(order))}

        return lap

    readings = interleave({"a": row("a"), "b": row("b")}, rounds=2, warm=1)
    assert order == ["b", "a", "a", "b", "b", "a"]
    assert readings == {"a": {"s": [3.0, 6.0]}, "b": {"s": [4.0, 5.0]}}


def test_the_load_of_others_leaves_out_what_this_process_burns():
    idle, load = Load.watched(0.2), Load()
    sum(range(10_000_000))
    assert load.others() < idle + 0.7  # without the correction it would be 1 more


def bench(tmp_path, *words: str) -> Bench:
    return Bench(
        name="sample",
        title="A sample",
        options=options([*words, "--out", str(tmp_path)], ""),
        base="b",
        quantities=("s",),
        peers=("peer",),
        goals=[AT_MOST],
    )


def test_rows_that_cannot_be_made_are_listed_with_the_reason(tmp_path):
    def missing():
        raise ImportError("No module named 'lightning'")

    def refused():
        raise NotRun("no bf16 here")

    made = bench(tmp_path)
    rows = made.gather({"a": lambda: 1, "x": missing, "y": refused})
    assert rows == {"a": 1}
    assert made.absent == {"x": "No module named 'lightning'", "y": "no bf16 here"}


def test_only_and_quick_leave_rows_out(tmp_path):
    assert bench(tmp_path, "--only", "hot").gather({"hotloop": int, "bare": int}) == {"hotloop": 0}
    assert bench(tmp_path, "--quick").gather({"peer": int, "bare": int}) == {"bare": 0}


def test_a_machine_that_became_busy_is_not_judged_unless_asked(tmp_path, capsys):
    for words, verdict in (((), "UNKNOWN: others used"), (("--busy",), "REACHED** [busy]")):
        made = bench(tmp_path, *words)
        made.before, made.load = 1.0, Load()
        made.conclude(against_one(0.1))
        said = capsys.readouterr().out
        assert verdict in said
        assert "BUSY" in said
