"""docs/defaults.md is made from the benchmark's figures; this holds it and the defaults to them."""

import importlib.util
import json

from tests.paths import ROOT

DOCS = ROOT / "docs"


def generator():
    spec = importlib.util.spec_from_file_location("defaults_page", DOCS / "defaults.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    made = generator()
    is_up_to_date = made.page(json.loads(made.SOURCE.read_text())) == made.PAGE.read_text()
    assert is_up_to_date, "docs/defaults.md is older than its figures: run python docs/defaults.py"
