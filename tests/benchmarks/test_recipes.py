"""The recipes' contestants learn the same of the same rows, and say what they were given."""

import warnings
from dataclasses import replace

import pytest
from benchmarks.measure import judge
from benchmarks.recipe_data import HELD, Lengths

from benchmarks import recipe_contestant, recipe_data, recipes


def test_lengths_are_what_they_are_said_to_be():
    drawn = sorted(recipes.SQUAD.drawn(1600, seed=1))
    assert sum(drawn) / 1600 == pytest.approx(181, abs=1)
    assert (drawn[80], drawn[800], drawn[1520], drawn[-1]) == (96, 170, 303, 512)
    assert sum(recipes.CHAT.drawn(1600, seed=1)) / 1600 == pytest.approx(256, abs=2)
    assert Lengths(median=9, sigma=1.0, low=9, high=9).drawn(3, seed=0) == [9, 9, 9]


@pytest.mark.parametrize("name", ["classifier-long", "classifier-short", "chat"])
def test_rows_have_exactly_the_lengths_that_were_drawn(name, tmp_path):
    case = recipes.CASES[name].tiny()
    mean = recipes.prepare(case, tmp_path)
    drawn = case.texts.lengths.drawn(case.texts.rows + HELD, seed=1)
    rows = [len(row["input_ids"]) for row in recipe_data.kept(tmp_path, "train")]
    assert rows == drawn[HELD:]
    assert mean == pytest.approx(sum(rows) / len(rows))
    valid = recipe_data.kept(tmp_path, "valid")
    assert [len(row["input_ids"]) for row in valid] == drawn[:HELD]
    batch = recipe_data.held(valid)
    assert int(batch["attention_mask"].sum()) == sum(drawn[:HELD])
    if name == "chat":
        learned = (batch["labels"] != -100).sum(1)
        assert learned.tolist() == [length - (length - 1) // 2 for length in drawn[:HELD]]
    else:
        assert set(batch["labels"].tolist()) == {0, 1}


@pytest.mark.parametrize("name", ["classifier-short", "chat", "expert"])
@pytest.mark.slow
def test_changed_rows_of_hotloop_train_the_same_model(name, tmp_path):
    warnings.simplefilter("ignore")
    whole, tiny = recipes.CASES[name], recipes.CASES[name].tiny()
    rows = {row: replace(each, steps=1) for row, each in whole.rows.items() if "hotloop" in row}
    case = replace(tiny, rows=rows, batch=whole.batch)
    recipes.prepare(case, tmp_path)
    begins, padding = set(), {}
    for row in rows:
        contestant = recipes.here(case, tmp_path, row)
        begins.add(round(contestant.first_loss, 4))
        lap = contestant.lap()
        padding[row] = 1 - lap["tokens"] / lap["slots"]
        assert lap["s"] > 0
        assert contestant.loss() != pytest.approx(contestant.first_loss, abs=1e-6)  # it learns
        contestant.stop()
    assert len(begins) == 1
    assert padding.get("hotloop, without padding", 0) == 0
    assert padding[recipes.OWN] < 0.2


def test_losses_and_memory_are_told_with_what_is_wrong():
    lap = recipes.Lap(None, recipes.Row(run=print), mean=10.0, check=8)
    other = recipes.Lap(None, recipes.Row(run=print), mean=10.0, check=8)
    lap.loss, other.loss = 2.0, 2.2
    about = {
        "a": {"loss": 3.0, "peak": 200 << 20, "forecast": None},
        "b": {"loss": 3.001, "peak": 100 << 20, "forecast": 120 << 20},
    }
    said = recipes.compared({"a": lap, "b": other}, about)
    assert said[0].endswith("a: 3.00000 before training, the same; 2.0000 after 8 steps, close")
    assert said[1].endswith("b: 3.00100 before training, DIFFERS; 2.2000 after 8 steps, DIFFERS")
    told = recipes.took(about)
    assert told[0].endswith("a: 200 MiB")
    assert told[1].endswith("b: 100 MiB, forecast 120 (+20%)")


def test_a_lap_counts_samples_by_the_mean_length_and_asks_for_the_loss_once():
    class Entry:
        asked = 0

        def lap(self):
            return {"s": 2.0, "tokens": 400, "slots": 500}

        def loss(self):
            self.asked += 1
            return 1.5

    lap = recipes.Lap(entry := Entry(), recipes.Row(run=print, steps=2), mean=20.0, check=4)
    found = lap()
    assert found == pytest.approx({"samples/s": 10, "tokens/s": 200, "padding %": 20})
    lap()
    assert (entry.asked, lap.loss, lap.steps) == (1, 1.5, 6)


def test_goals_name_rows_that_there_are():
    for case in recipes.CASES.values():
        for goal in case.goals:
            assert {goal.row, goal.against} - {None} <= set(case.rows)
    fast = {recipes.OWN: {"samples/s": [30.0] * 20}}
    floor = recipes.CASES["classifier-short"].goals[-1]
    assert judge(floor, fast)["verdict"] == "REACHED"


def test_an_unknown_case_is_answered_with_those_there_are():
    with pytest.raises(SystemExit, match="'long': classifier-long, classifier-short, chat, expert"):
        recipes.main(["long"])


def test_memory_is_read_where_the_system_tells_it():
    used = recipe_contestant.memory("VmRSS")
    assert used is None or used > 1 << 20
