"""The quality benchmark: what both sides are told, and how its seconds are read."""

import json

from benchmarks.quality_peers import Watch

from benchmarks import quality
from hotloop.recipes.registry import RECIPES


def test_both_sides_are_told_the_same(tmp_path):
    for row in (row for row in quality.ROWS.values() if row.recipe != "char-lm"):
        lines = row.rows or 100
        (tmp_path / f"{row.data}-train.jsonl").write_text("{}\n" * lines)
        order, settings = row.order(tmp_path, 2), row.settings(tmp_path, 2)
        assert order["settings"] == settings
        config = RECIPES[row.recipe].resolve(settings).config
        training, adapter = config.training, config.adapter
        names = ("learning_rate", "epochs", "schedule", "warmup_share", "weight_decay")
        ours = [getattr(training, name) for name in names]
        assert ours == [order[name] for name in ("rate", "epochs", "schedule", "warmup", "decay")]
        tasks = len(quality.TASKS) if row.recipe == "task-router" else 1
        assert training.batch_size == order["batch"] * tasks
        assert (adapter.method, config.seed) == (order["adapter"], order["seed"])
        if adapter.method != "none":
            assert (adapter.rank, adapter.alpha) == (order["rank"], 2 * order["rank"])
        if row.recipe == "task-router":
            assert training.eval_every_epochs == training.epochs // order["marks"] == 1
        else:
            assert training.eval_every_steps == row.steps(tmp_path) // order["marks"] > 0


def test_seconds_are_those_of_training(tmp_path):
    events = [
        {"kind": "session", "t": 5.0},
        {"kind": "save", "t": 6.0, "wall": 1.0},
        {"kind": "eval", "t": 17.0, "wall": 2.0, "step": 10, "loss": 0.5, "figures": {"f1": 0.7}},
        {"kind": "eval", "t": 31.0, "wall": 4.0, "step": 20, "loss": 0.4},
    ]
    (tmp_path / "events-r0.jsonl").write_text("\n".join(map(json.dumps, events)))
    curve = quality.curve_of(tmp_path)
    assert [point["seconds"] for point in curve] == [9.0, 19.0]
    assert curve[0]["f1"] == 0.7
    assert quality.seconds_to(curve, "loss", 0.5, more=False) == 9.0
    assert quality.seconds_to(curve, "loss", 0.45, more=False) == 19.0
    assert quality.seconds_to(curve, "loss", 0.3, more=False) is None


def test_the_clock_of_a_peer_rests_while_it_validates(monkeypatch):
    now = iter([0.0, 3.0, 10.0, 14.0, 20.0])
    monkeypatch.setattr("benchmarks.quality_peers.time.perf_counter", lambda: next(now))
    watch = Watch(lambda: {"loss": 1.0}, {1, 2})
    watch.begins()
    watch.made(1)  # 3 s of training; the validation ends at 10
    watch.begins()
    watch.made(2)
    assert [point["seconds"] for point in watch.curve] == [3.0, 7.0]
