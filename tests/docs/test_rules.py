"""docs/rules.md is made from the rules; this holds it to them."""

import importlib.util

from tests.paths import ROOT

from hotloop import rules

DOCS = ROOT / "docs"


def generator():
    spec = importlib.util.spec_from_file_location("rules_page", DOCS / "rules.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date():
    is_up_to_date = generator().page() == (DOCS / "rules.md").read_text(encoding="utf-8")
    assert is_up_to_date, "docs/rules.md is older than the rules: run python docs/rules.py"


def test_every_rule_has_its_row():
    page = (DOCS / "rules.md").read_text(encoding="utf-8")
    missing = [rule.label for rule in rules.ALL if f"\n| `{rule.label}` |" not in page]
    assert not missing, "docs/rules.md lacks rules: run python docs/rules.py"
    assert page.count("\n| `") == len(rules.ALL)
