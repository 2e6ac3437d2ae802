"""Runs the tests that need a GPU; a failure is a line of the result and stops nothing.

    python -m benchmarks.gpu.gpu_tests --json FILE

Warnings are no errors: torch's prototypes warn, and a machine's versions are its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.diagnosed import ROOT
from benchmarks.gpu.part import Writer, options

FOLDERS = ("engine", "observe", "machine", "techniques", "models", "data")


def command(report: Path) -> list[str]:
    """Return what pytest is called with."""
    words = ["-m", "gpu", "-p", "no:cacheprovider", "-W", "default", "-q"]
    words += ["--continue-on-collection-errors", f"--junitxml={report}"]
    return [sys.executable, "-m", "pytest", *words, *(f"tests/{name}" for name in FOLDERS)]


def main() -> int:
    """Run them and write how each ended; 1 if one failed or could not be collected."""
    out = Writer(options(__doc__).json)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        subprocess.run(command(report), cwd=ROOT, check=False)
        if not report.exists():
            out.put("failed", "pytest wrote no report")
            return 1
        cases = ElementTree.parse(report).getroot().iter("testcase")
        ended, bad = dict[str, str](), 0
        for case in cases:
            name = f"{case.get('classname')}::{case.get('name')}"
            problem = next((e for e in case if e.tag in ("failure", "error", "skipped")), None)
            ended[name] = (
                "passed" if problem is None else f"{problem.tag}: {problem.get('message')}"
            )
            bad += problem is not None and problem.tag != "skipped"
    out.put("tests", ended)
    print(f"  {len(ended) - bad} of {len(ended)} passed or skipped", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
