"""The sweeps of default settings: what is typed, and where a patience ends a training."""

import random

import pytest
from benchmarks.defaults import SWEEPS, Run, stopped

from hotloop.engine.evaluate import Evaluation, judged
from hotloop.recipes.registry import RECIPES
from hotloop.session.accumulation_windows import Position


@pytest.mark.parametrize("name", SWEEPS)
def test_every_training_of_a_sweep_resolves(name, tmp_path):
    sweep = SWEEPS[name]
    resolve = RECIPES[sweep.recipe].resolve
    seen = set()
    for label in sweep.variants:
        command = Run(name, label, sweep.check, 1).command(tmp_path)
        assert command[:2] == ["train", sweep.recipe]
        seen.add(repr(resolve(command[2 : command.index("--out")]).config))
    assert len(seen) == len(sweep.variants), "two variants are the same training"
    assert {sweep.was, sweep.now} <= set(sweep.variants)


@pytest.mark.parametrize("patience", [1, 2, 3, None])
def test_a_patience_ends_a_training_where_the_engine_does(patience):
    draw = random.Random(0)
    sweep = SWEEPS["chat-patience"]
    for _ in range(50):
        losses = [round(draw.random(), 1) for _ in range(8)]
        curve = [{"step": 10 * (at + 1), "loss": loss} for at, loss in enumerate(losses)]
        position, made = Position(), 0
        for loss in losses:
            position, _ = judged(position, Evaluation(loss=loss, targets=1), None, 0.0)
            made += 1
            if patience is not None and position.stale >= patience:
                break
        found = stopped(curve, patience, sweep)
        assert len(found["curve"]) == made
        assert found["best_score"] == position.best_loss
        assert found["share_of_steps"] == made / 8
