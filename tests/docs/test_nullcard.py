"""docs/nullcard.md is made from the null card's figures; this holds it to them."""

import importlib.util
import itertools
import json

from tests.paths import ROOT

DOCS = ROOT / "docs"


def generator():
    spec = importlib.util.spec_from_file_location("nullcard_page", DOCS / "nullcard.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    is_up_to_date = generator().page() == (DOCS / "nullcard.md").read_text(encoding="utf-8")
    assert is_up_to_date, "docs/nullcard.md is older than its figures: run python docs/nullcard.py"


def test_the_forecast_of_each_preset_of_a_recipe_is_held_to_the_allocator():
    from benchmarks.preset_forecasts import GPUS, RECIPES

    record = json.loads((ROOT / "benchmarks" / "results" / "allocator-peaks.json").read_text())
    found = {(row["recipe"], row["preset"]): row for row in record["rows"]}
    assert set(found) == set(itertools.product(RECIPES, GPUS))
    for name, row in found.items():
        percent = round(100 * (row["forecast_bytes"] / row["reserved_bytes"] - 1), 1)
        assert -5.0 <= percent <= 10.0, name
