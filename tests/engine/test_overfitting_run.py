"""A run that learns its training rows by heart says so."""

import json
import random

from hotloop.jobs import train as engine
from hotloop.jobs.request import fresh_request


def test_a_run_on_noise_says_that_it_learns_by_heart(tmp_path):
    draw = random.Random(0)
    text = tmp_path / "noise.txt"
    text.write_text("".join(draw.choice("abcdefgh") for _ in range(1500)))
    settings = {
        "data.path": text,
        "model.layers": 2,
        "model.heads": 2,
        "model.width": 128,
        "model.context": 16,
        "model.dropout": 0,
        "training.batch_size": 16,
        "training.accumulation": 1,
        "training.max_steps": 600,
        "training.learning_rate": 0.001,
        "training.warmup_steps": 5,
        "training.eval_every_steps": 60,
        "training.precision": "fp32",
    }
    request = fresh_request("char-lm", [f"{key}={value}" for key, value in settings.items()])
    engine.train(request, out=tmp_path / "run")
    lines = (tmp_path / "run" / "events-r0.jsonl").read_text().splitlines()
    notes = [event["text"] for event in map(json.loads, lines) if event["kind"] == "note"]
    (found,) = [note for note in notes if "by heart" in note]
    assert found.startswith("the validation loss rises since the best validation")
