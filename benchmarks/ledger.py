"""Compares the ledger of each example, without rules, with the fault that its author planted.

    python -m benchmarks.ledger [FOLDER ...]

Runs `hotloop doctor --no-rules` on examples/slow, blind and blind2 (whose truth is cause.json, or a
JSON beside the script) and on examples/clean, and writes the largest avoidable row of each to
benchmarks/results/ledger.json. "line" says whether a line of the truth is the row's line, or is on
the call chain of its most expensive line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "ledger.json"


def scripts(folders: list[str]) -> list[tuple[Path, dict[str, Any] | None]]:
    """Return each script with its truth; None for one without a fault."""
    found: list[tuple[Path, dict[str, Any] | None]] = []
    for folder in folders:
        for truth in sorted((ROOT / "examples" / folder).rglob("*.json")):
            script = truth.with_name("train.py") if truth.name == "cause.json" else None
            script = script or truth.with_suffix(".py")
            content = json.loads(truth.read_text())
            if script.exists() and content.get("kind") == "speed":
                found.append((script, content))
    clean = sorted((ROOT / "examples" / "clean").glob("*.py"))
    return [*found, *((script, None) for script in clean)]


def ledger_of(script: Path) -> dict[str, Any]:
    """Run the doctor without rules; return the ledger."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "findings.json"
        command = [sys.executable, "-m", "hotloop", "doctor", "--no-rules"]
        command += ["--out", f"{folder}/run", "--json", str(out), script.name]
        subprocess.run(command, cwd=script.parent, capture_output=True, check=True, timeout=400)
        ledger: dict[str, Any] = json.loads(out.read_text())["ledger"]
        return ledger


def judged(script: Path, truth: dict[str, Any] | None) -> dict[str, Any]:
    """Return one row of the table."""
    ledger = ledger_of(script)
    once = {"start", "import", "compiling", "after training"}
    rows = [row for row in ledger["rows"] if row["name"] not in once]
    whole = sum(row["seconds"] for row in rows)
    avoidable = sorted((r for r in rows if r["avoidable"]), key=lambda row: -row["seconds"])
    first = avoidable[0] if avoidable else None
    lines = set() if first is None else {(first["place"] or {}).get("line")}
    if first is not None and first["lines"]:
        lines |= {frame["line"] for frame in first["lines"][0]["calls"] if frame["own"]}
    return {
        "script": str(script.relative_to(ROOT)),
        "row": first and first["name"],
        "share": first and round(first["seconds"] / whole, 3),
        "place": first and (first["place"] or {}).get("line"),
        "line": truth and bool(lines & set(truth["lines"])),
        "avoidable": round(sum(row["seconds"] for row in avoidable) / whole, 3),
        "not_split": ledger["not_split"],
    }


def main() -> None:
    """Judge all scripts, and write each result when it is known."""
    results = []
    for script, truth in scripts(sys.argv[1:] or ["slow", "blind", "blind2"]):
        results.append(judged(script, truth))
        print(json.dumps(results[-1]), flush=True)
        RESULT.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
