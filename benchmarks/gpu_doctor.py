"""Does the doctor find a GPU's faults, and no others? Runs it on the scripts of examples/gpu.

    python -m benchmarks.gpu_doctor [NAME ...] [--cases FOLDER]

A script marks the line of its fault by `# FAULT: RULE ...`, or by `# FAULT ANYWHERE: RULE ...` if
its remedy has no line; one without a mark is innocent. Writes
benchmarks/results/gpu-doctor-<GPU>.json (under $OUT where that is set), anew after each script.
`--cases` keeps the observation of each script as FOLDER/NAME.json.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.diagnosed import EXAMPLES, Example, observed, verdict
from benchmarks.field.__main__ import said
from hotloop.core.storage.files import make_folder, write_json
from hotloop.machine.detect import detect
from hotloop.rules.diagnose import diagnose

SECONDS = 12.0  # of training that is observed: ten scripts have to fit into a lent GPU's minutes
MARK = re.compile(r"# FAULT( ANYWHERE)?: (.+)")


def marked(script: Path) -> Example:
    """Return a script with the cause that its mark states."""
    cause = None
    for number, line in enumerate(script.read_text().splitlines(), 1):
        if mark := MARK.search(line):
            lines = [] if mark[1] else [number]
            cause = {"file": script.name, "lines": lines, "rules": mark[2].split()}
    return Example(name=script.stem, script=script, cause=cause)


def met(example: Example, cases: Path | None) -> dict[str, Any]:
    """Run the doctor on a script; return what it said and whether that is right."""
    case, seconds = observed(example, SECONDS)
    expected = {} if example.cause is None else dict(example.cause)
    row: dict[str, Any] = {"expected": expected.get("rules", []), "lines": expected.get("lines")}
    row["seconds"] = round(seconds, 1)
    if isinstance(case, str):
        return row | {"right": False, "failed": case}
    if cases is not None:
        write_json(cases / f"{example.name}.json", case.to_json())
    right = verdict(example, diagnose(case))[0]
    row |= {"step": None, "own_time": case.own_time, **said(case)}
    if case.step_time is None:
        return row | {"right": False, "failed": "no steps were seen"}
    return row | {"step": case.step_time.median, "right": right}


def main() -> int:
    """Meet the scripts, print a line each, write all down; 1 if one was not right."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="parts of names; default: all")
    parser.add_argument("--cases", type=Path)
    options = parser.parse_args()
    if options.cases is not None:
        make_folder(options.cases)
    hardware, found = detect(), {}
    gpu = re.sub(r"[^a-z0-9]+", "-", hardware.name.lower()).strip("-")
    target = Path(os.environ.get("OUT") or Path(__file__).parent / "results")
    make_folder(target)
    for script in sorted((EXAMPLES / "gpu").glob("*.py")):
        if options.names and not any(name in script.stem for name in options.names):
            continue
        found[script.stem] = one = met(marked(script), options.cases)
        told = one.get("failed") or one["verdict"]
        print(f"{'right' if one['right'] else 'WRONG':<6}{script.stem:<22}{told}", flush=True)
        write_json(
            target / f"gpu-doctor-{gpu}.json", {"hardware": hardware.to_json(), "scripts": found}
        )
    return 0 if all(one["right"] for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
