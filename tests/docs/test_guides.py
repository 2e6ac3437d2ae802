"""docs/guides is made from the guides inside the package; this holds it to them."""

import importlib.util

from tests.paths import ROOT

DOCS = ROOT / "docs"


def test_the_pages_are_up_to_date():
    spec = importlib.util.spec_from_file_location("guides_pages", DOCS / "guides.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = {path.name: path.read_text(encoding="utf-8") for path in module.FOLDER.iterdir()}
    assert written == module.pages(), "run make docs"
