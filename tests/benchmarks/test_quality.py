"""The quality benchmark: what both sides are told, and how its seconds are read."""

import json

from benchmarks.quality_peers import Watch

from benchmarks import quality


def test_both_sides_are_told_the_same(tmp_path):
    for row in (row for row in quality.ROWS.values() if row.recipe != "char-lm"):
        lines = row.rows or 100
        (tmp_path / f"{row.data}-train.jsonl").write_text("{}\n" * lines)
        order, settings = row.order(tmp_path, 2), row.settings(tmp_path, 2)
        told = dict(text.split("=", 1) for text in settings)
        assert order["settings"] == settings
        assert float(told["training.learning_rate"]) == order["rate"]
        assert int(told["training.batch_size"]) == order["batch"]
        assert int(told["training.epochs"]) == order["epochs"]
        assert told["adapter.method"] == order["adapter"]
        assert int(told["seed"]) == order["seed"] == 2
        every = int(told["training.eval_every_steps"])
        assert every == row.steps(tmp_path) // quality.MARKS > 0


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
