"""Does the doctor find a GPU's faults, and no others? Runs it on the scripts of examples/gpu.

    python -m benchmarks.gpu_doctor [NAME ...] [--cases FOLDER]

A script marks the line of its fault by `# FAULT: RULE ...`, with ids of rules or the letter of a
group, and `anywhere` if its remedy has no line; one without a mark is innocent. Right: the first
finding is of a marked rule and names the marked line, or steps were seen and nothing at warn or
above was said of an innocent script. Writes
benchmarks/results/gpu-doctor-<GPU>.json (under $OUT where that is set), anew after each script.
`--cases` keeps the observation of each script as FOLDER/NAME.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.diagnosed import EXAMPLES
from hotloop.core.storage.files import make_folder, write_json
from hotloop.machine.detect import detect

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT_S = 90  # of one script
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(EXAMPLES.parent / "src"),
}  # `make gpu` has no install
LOUD = ("warn", "critical")


def marked(script: Path) -> tuple[list[str], int | None]:
    """Return the rules that a script is planted for, and the line; neither if it is innocent."""
    for number, line in enumerate(script.read_text().splitlines(), 1):
        if "# FAULT: " in line:
            return line.partition("# FAULT: ")[2].split(), number
    return [], None


def met(script: Path, cases: Path | None = None) -> dict[str, Any]:
    """Run the doctor on a script; return what it said and whether that is right."""
    expected, line = marked(script)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "told.json")
        seen = Path(folder, "seen")
        command = [sys.executable, "-m", "hotloop", "doctor", "--time", "12", "--json", str(told)]
        command += ["--out", str(seen), str(script)]
        ended: dict[str, Any] = {"expected": expected, "line": line}
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=ENVIRONMENT,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return ended | {"right": False, "failed": f"stopped after {LIMIT_S} s"}
        ended["seconds"] = round(time.monotonic() - began, 1)
        if not told.exists():
            return ended | {"right": False, "failed": done.stderr[-2000:]}
        said = json.loads(told.read_text())
        if cases is not None and (seen / "case.json").exists():
            shutil.copy(seen / "case.json", cases / f"{script.stem}.json")
    findings = [one for one in said["findings"] if one["severity"] in LOUD]
    ended["findings"] = [_short(one) for one in said["findings"]]
    ended["refuted"] = [_short(one) for one in said["refuted"]]
    ended["machine"] = [one["claim"] for one in said["machine"]]
    ended["not_checked"] = said["not_checked"]
    ended["own_time"] = said["own_time"]
    ended["step_time"] = (said["step_time"] or {}).get("readings")
    ended["experiments"] = [_experiment(one) for one in said["experiments"]]
    if not ended["step_time"]:
        ended["failed"] = f"no steps were seen: {done.stderr[-2000:]}"
    return ended | {"right": "failed" not in ended and _is_right(findings, expected, line)}


def _is_right(
    findings: Sequence[dict[str, Any]], expected: Sequence[str], line: int | None
) -> bool:
    if not expected or not findings:
        return not expected and not findings
    if "anywhere" in expected and not findings[0]["places"]:
        line = None
    rule = findings[0]["rule"].partition(" ")[0]
    is_named = rule in expected or re.sub(r"\d", "", rule) in expected
    return is_named and (line is None or line in [place["line"] for place in findings[0]["places"]])


def _short(finding: dict[str, Any]) -> dict[str, Any]:
    kept = {key: finding[key] for key in ("rule", "severity", "claim", "share", "measured")}
    lines = [f"{Path(one['file']).name}:{one['line']}" for one in finding["places"]]
    return kept | {"places": lines, "evidence": finding["evidence"]}


def _experiment(made: dict[str, Any]) -> dict[str, Any]:
    return {key: made.get(key) for key in ("name", "what", "gain", "low", "high", "why_not")}


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
        found[script.stem] = one = met(script, options.cases)
        loud = [f["rule"] for f in one.get("findings", []) if f["severity"] in LOUD]
        told = one.get("failed") or ", ".join(loud) or "nothing at warn or above"
        print(
            f"{'right' if one['right'] else 'WRONG':<6}{script.stem:<22}{one.get('seconds')!s:>6} s"
            f"  {told}",
            flush=True,
        )
        said = {"hardware": hardware.to_json(), "scripts": found}
        write_json(target / f"gpu-doctor-{gpu}.json", said)
    return 0 if all(one["right"] for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
