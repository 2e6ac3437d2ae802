"""Does `hotloop rehearse` find a GPU's faults without a GPU? Rehearses the scripts of examples/gpu.

    python -m benchmarks.rehearsed_faults [NAME ...] [--card rtx4090]

It has to run with an interpreter that has torch for CUDA (make test-nullcard makes one). A script
marks each line of its fault by `# FAULT: RULE ...`, or one by `# FAULT ANYWHERE: RULE ...` if its
remedy has no line; one without a mark is innocent. "named" is a finding of the rule at the line.
Writes benchmarks/results/rehearsed-faults.json after each script.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.diagnosed import EXAMPLES
from benchmarks.gpu.doctor import marked
from benchmarks.table import RESULTS
from hotloop.core import codec
from hotloop.core.case.rehearsal import Rehearsal
from hotloop.core.storage.files import write_json

if TYPE_CHECKING:
    from benchmarks.diagnosed import Example

RULES = ("G", "H", "D15", "D16", "D17")  # that a rehearsal asks
OUT = RESULTS / "rehearsed-faults.json"


def rehearsed(example: Example, card: str) -> dict[str, Any]:
    """Rehearse a script; return what its rules said and whether that is right."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        words = ["rehearse", "-q", "--card", card, "--json", str(result), str(example.script)]
        done = subprocess.run(
            [sys.executable, "-m", "hotloop", *words],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            return {"right": False, "failed": done.stderr[-500:]}
        read = json.loads(result.read_text())
    read.pop("schema")
    found = codec.from_json(Rehearsal, read)
    if found.judged is None:
        return {"right": False, "failed": found.why_not_judged}
    expected = [] if example.cause is None else example.cause["rules"]
    asked = [rule for rule in expected if rule.startswith(RULES)]
    named = [
        f"{one.rule} ({one.severity})"
        for one in found.judged.findings
        if one.rule.split()[0] in asked
        and (not example.places or {(p.file, p.line) for p in one.places} & example.places)
    ]
    loud = [
        f"{one.rule} ({one.severity})" for one in found.judged.findings if one.severity != "note"
    ]
    first = next((one.rule.split()[0] for one in found.judged.findings), None)
    return {
        "asked": asked,
        "named": named[:1],
        "first": first,
        "above a note": loud,
        "right": bool(named) if asked else not loud,
    }


def main() -> int:
    """Rehearse the scripts and print a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of names; default: all")
    parser.add_argument("--card", default="rtx4090")
    chosen = parser.parse_args()
    rows = json.loads(OUT.read_text())["rows"] if OUT.exists() and chosen.names else {}
    for script in sorted((EXAMPLES / "gpu").glob("*.py")):
        if chosen.names and not any(name in script.stem for name in chosen.names):
            continue
        row = rehearsed(marked(script), chosen.card)
        rows[script.stem] = row
        write_json(OUT, {"card": chosen.card, "rows": dict(sorted(rows.items()))})
        said = row.get("failed") or row["named"] or row["above a note"]
        print(f"  {'right' if row['right'] else 'WRONG':<6}{script.stem:<22}{said}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
