"""docs/data-sets.md is what its script makes of the results."""

import json
import runpy

from tests.paths import ROOT


def test_the_page_is_that_of_the_results() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "data_sets.py"))
    result = json.loads(script["RESULT"].read_text())
    assert len(result["sets"]) > 50
    assert script["PAGE"].read_text() == script["page"](result)
