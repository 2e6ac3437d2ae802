"""docs/quality.md is made from the benchmark's figures; this holds it to them."""

import importlib.util

import pytest
from tests.paths import ROOT

DOCS = ROOT / "docs"


def generator():
    spec = importlib.util.spec_from_file_location("quality_page", DOCS / "quality.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    page = generator()
    is_up_to_date = page.made() == page.PAGE.read_text()
    assert is_up_to_date, "docs/quality.md is older than its figures: run python docs/quality.py"


@pytest.mark.parametrize(
    ("ours", "theirs", "more", "said"),
    [
        ([0.9, 0.91], [0.8, 0.89], True, "better"),
        ([0.9, 0.91], [0.8, 0.89], False, "worse"),
        ([0.9, 0.85], [0.8, 0.89], True, "no difference"),
        ([2.1, 2.0], [2.2, 2.3], False, "better"),
    ],
)
def test_a_difference_is_said_only_where_all_seeds_agree(ours, theirs, more, said):
    assert generator().verdict(ours, theirs, more_is_better=more) == said
