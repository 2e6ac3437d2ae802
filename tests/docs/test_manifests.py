"""The table of docs/manifests.md is that of benchmarks/results/dialects.json."""

from benchmarks.dialects import RESULT, row
from tests.paths import ROOT

from hotloop.core.storage.files import read_json


def test_the_page_has_a_line_for_each_file_as_the_results_make_it() -> None:
    page = (ROOT / "docs" / "manifests.md").read_text()
    files = read_json(RESULT)["files"]
    assert len(files) == 20
    for file in files:
        assert row(file) in page
