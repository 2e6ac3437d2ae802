"""docs/cards.md is made from the code; this holds it to it."""

import importlib.util
import json

import pytest
from tests.paths import ROOT

from hotloop.core.gpu_specs import GPUS
from hotloop.recipes.char_lm.presets import EXPERIMENTS, PRESETS

DOCS = ROOT / "docs"


def generator():
    spec = importlib.util.spec_from_file_location("cards", DOCS / "cards.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE = (DOCS / "cards.md").read_text(encoding="utf-8")


def test_the_page_is_up_to_date():
    assert generator().page() == PAGE, "run make docs"


def test_every_value_of_every_preset_says_how_it_came_about():
    for preset in (*PRESETS.values(), *EXPERIMENTS.values()):
        for key in preset.values:
            lines = [line for line in PAGE.splitlines() if line.startswith(f"| `{key}=")]
            assert any(f"| {preset.how(key)} | {preset.reasons[key]} |" in line for line in lines)


def test_no_batch_of_a_gpu_is_called_measured():
    batches = [line for line in PAGE.splitlines() if "training.batch_size" in line]
    assert len(batches) > len(PRESETS)
    measured = [line for line in batches if "| measured |" in line]
    assert all(line.startswith("| no GPU |") for line in measured)


def test_every_gpu_has_a_line_with_its_source():
    table = PAGE.split("## Peaks of GPUs")[1]
    assert table.count("| published |") + table.count("| derived |") == len(GPUS)
    assert "| rtx 4090 | 24 GiB | 8.9 | 82.6 | 82.6 | 165.2 | 165.2 | 1.008 | published |" in table
    assert "| v100 sxm2 | 16 GiB | 7.0 | 15.7 | - | - | 125 | 0.9 |" in table


def test_every_preset_of_a_recipe_on_texts_has_a_forecast():
    record = json.loads(generator().FORECASTS.read_text(encoding="utf-8"))
    found = [(row["recipe"], row["preset"]) for row in record["forecasts"]]
    gpus = [name for name in PRESETS if name != "cpu"]
    recipes = ("pair-classifier", "chat-sft", "expert-sft", "task-router")
    assert sorted(found) == sorted((recipe, gpu) for recipe in recipes for gpu in gpus)
    assert all(
        row["peak_bytes"] < row["memory_bytes"] for row in record["forecasts"] if row["fits"]
    )


@pytest.mark.slow
def test_a_forecast_is_what_the_code_says():
    from benchmarks.preset_forecasts import forecasts

    record = json.loads(generator().FORECASTS.read_text(encoding="utf-8"))
    told = next(row for row in record["forecasts"] if row["recipe"] == "chat-sft")
    found = next(forecasts("chat-sft", [told["preset"]]))
    assert found["micro_batch"] == told["micro_batch"]
    assert found["peak_bytes"] == pytest.approx(told["peak_bytes"], rel=0.02)
