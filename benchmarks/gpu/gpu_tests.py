"""Runs the tests that need a GPU; a failure is a line of the result and stops nothing.

    python -m benchmarks.gpu.gpu_tests --json FILE [--short]

Warnings are no errors: torch's prototypes warn, and a machine's versions are its own. FILE is
written anew after each test. With --short only a test that cannot be collected or set up counts as
bad: the others compare values, which a GPU that is none does not have.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from benchmarks.diagnosed import ROOT
from benchmarks.gpu.part import Writer, options

MARK = "@pytest.mark.gpu"


def words() -> list[str]:
    """Return what pytest is called with.

    Other files are not collected: they may need packages that the machine lacks.
    """
    found = ["-m", "gpu", "-p", "no:cacheprovider", "-W", "default", "-q", "--timeout=60"]
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    files = [str(path.relative_to(ROOT)) for path in paths if MARK in path.read_text()]
    return [*found, "--continue-on-collection-errors", *files]


class Recorder:
    """Writes how each test ended, as soon as it has; a plugin of pytest."""

    def __init__(self, out: Writer) -> None:
        self._out, self.ended = out, dict[str, str]()

    def pytest_collectreport(self, report: Any) -> None:
        """Keep a file that cannot be collected."""
        if report.failed:
            self._put(report, "error")

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the outcome of a test, or of its set-up if that went wrong."""
        if report.when == "call" or not report.passed:
            is_body = report.when == "call" or report.skipped
            self._put(report, report.outcome if is_body else "error")

    def _put(self, report: Any, outcome: str) -> None:
        why = report.longrepr
        said = why[-1] if isinstance(why, tuple) else report.longreprtext.strip()
        last = "" if not said else f": {said.splitlines()[-1]}"
        self.ended[report.nodeid] = f"{outcome}{last}"
        self._out.put("tests", self.ended)


def main() -> int:
    """Run them; 1 if one failed, could not be collected, or none was found."""
    import pytest

    chosen = options(__doc__)
    os.chdir(ROOT)
    recorder = Recorder(Writer(chosen.json))
    pytest.main(words(), plugins=[recorder])
    bad = ("error",) if chosen.short else ("error", "failed")
    wrong = [name for name, how in recorder.ended.items() if how.startswith(bad)]
    print(f"  {len(recorder.ended) - len(wrong)} of {len(recorder.ended)} ended well", flush=True)
    return 1 if wrong or not recorder.ended else 0


if __name__ == "__main__":
    sys.exit(main())
