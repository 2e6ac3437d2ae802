import json
from dataclasses import replace

import pytest

from hotloop.recipes.char_lm.ladder import LADDER
from hotloop.tuning.recipe_trial import record_of

from .conftest import Races, Told, climbed


def states(result) -> dict[str, str]:
    return {row.id: row.state for row in result.rows}


def test_each_rung_is_raced_with_the_lowest(result):
    assert states(result) == {
        "before": "measured",
        "engine": "measured",
        "sdpa": "measured",
        "low": "blocked",
        "own": "measured",
    }
    own, sdpa = result.row("own"), result.row("sdpa")
    assert own.comparison.factor == "5.00x (5.00-5.00)"
    assert sdpa.comparison.verdict == "FASTER"
    before = result.row("before").comparison  # it is raced with itself
    assert (before.verdict, before.ratio) == ("UNKNOWN", 1.0)
    assert before.why.endswith("one pair of processes may be alike by chance")
    assert "emulated" in result.row("low").why
    assert own.figures["epoch_s"] > 3


def test_techniques_pile_up_though_rungs_are_left_out(result):
    assert result.row("sdpa").plan.micro_batch == 6
    assert result.row("engine").plan.micro_batch == 1
    assert result.row("own").plan.choice("fused-adamw") is not None


def test_a_rung_without_effect_is_a_row_and_nothing_stands_on_it(parts, tmp_path):
    races = Races(sdpa="not needed here", fused="over memory")
    result = climbed(parts, tmp_path, races=races)
    assert states(result)["sdpa"] == "not needed here"
    assert states(result)["fused"] == "failed"
    assert result.row("fused").why == "over memory: it was planted"
    assert result.row("lean").plan.choice("sdpa") == {"backend": "naive"}
    assert result.row("lean").plan.choice("fused-adamw") is None


def test_what_a_rung_adds_to_the_one_below_is_of_their_factors(parts, tmp_path):
    races = Races({"engine": 0.08, "micro-batch": 0.04, "sdpa": 0.05})
    result = climbed(parts, tmp_path, races=races, only=("engine", "micro-batch", "sdpa", "lean"))
    over = {row.id: row.over_below for row in result.rows}
    assert over["engine"] == pytest.approx(0.1 / 0.08), "the lowest is 1, not what its noise says"
    assert over["micro-batch"] == pytest.approx(2)
    assert over["sdpa"] == pytest.approx(0.8)
    assert over["lean"] is None, "the one below was not measured"
    assert result.row("sdpa").below == "+ whole micro batch"


def test_losses_are_held_against_the_first_rung_of_the_engine(result):
    assert result.row("before").parity is None, "its order is another"
    assert result.row("engine").parity is None, "it is the one they are held against"
    assert result.row("sdpa").parity.kept is True


def test_ctrl_c_keeps_what_is_finished(parts, tmp_path):
    kept = []
    result = climbed(parts, tmp_path, races=Races(after="sdpa"), keep=kept.append)
    assert states(result) == dict.fromkeys(("before", "engine", "micro-batch"), "measured")
    assert result.stopped == "stopped by Ctrl-C; 3 rungs were measured"
    assert [len(each.rows) for each in kept] == [1, 2, 3]


def test_impossible_figures_are_not_shown(parts, tmp_path):
    result = climbed(parts, tmp_path, only=("own",), rate=1e3)
    assert states(result) == {"before": "impossible"}
    assert result.row("before").figures == {}
    assert result.row("before").comparison is None
    assert result.stopped.startswith("the lowest rung could not be measured: ")


def test_targets_are_about_the_last_rung_where_the_judged_one_was_not_asked_for(parts, tmp_path):
    assert climbed(parts, tmp_path, only=("sdpa", "engine")).judged == "sdpa"
    assert climbed(parts, tmp_path, only=("own", "engine")).judged == "own"


def test_progress_tells_the_time_left(parts, tmp_path):
    said = []
    ticks = iter(range(0, 10_000, 15))
    climbed(parts, tmp_path, only=("engine",), notify=said.append, clock=lambda: next(ticks))
    assert said[0] == "rung 1 of 2, plain loop: starting"
    assert any("rung 2 of 2" in each and "left" in each for each in said)


def test_the_lowest_rung_is_another_program(parts, tmp_path):
    made = []

    class Kept(Told):
        def __init__(self, command, **how):
            super().__init__(command)
            made.append(self.command)

    climbed(parts, tmp_path, only=("engine",), listen=Kept)
    assert ["bench.plain" in command[2] for command in made] == [True, True, True, False]
    asked = json.loads(made[-1][3])
    assert asked["request"] == json.loads(json.dumps(record_of(parts.request)))
    assert asked["aside"] == str(tmp_path)


def test_a_ladder_of_one_rung_is_one_row(parts, tmp_path):
    alone = replace(LADDER, rungs=LADDER.rungs[:1], judged="before")
    assert states(climbed(parts, tmp_path, ladder=alone)) == {"before": "measured"}
