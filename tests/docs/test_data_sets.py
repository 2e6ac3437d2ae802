"""docs/data-sets.md is what its script makes of the results."""

import json
import runpy

from tests.paths import ROOT


def test_the_page_is_that_of_the_results() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "data_sets.py"))
    result = json.loads(script["RESULT"].read_text())
    assert len(result["sets"]) > 50
    assert script["PAGE"].read_text() == script["page"](result)


def test_what_is_not_trained_on_has_a_reason() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "data_sets.py"))
    sets = json.loads(script["RESULT"].read_text())["sets"]
    runs = [run for one in sets for run in (one["first"], one.get("then")) if run is not None]
    assert all(run["exit"] in (0, 65) for run in runs)
    assert all(run["said"].startswith("hotloop: ") for run in runs if run["exit"])
    untrained = {one["slug"] for one in sets if (one.get("then") or one["first"])["exit"]}
    assert untrained == {"apps-folders", "oasst1-messages", "oasst1-hub-parquet"}
