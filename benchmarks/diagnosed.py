"""Does the doctor name the true cause? Runs it on every example and compares with what was written
down before: the first finding's file and line for the slow scripts, silence for the clean ones.

    python -m benchmarks.diagnosed [NAME ...] [--time S] [--record]

The result goes to benchmarks/results/diagnosed-cpu.json. `--record` also keeps each case, with
paths made relative, under tests/golden/recorded: the suite judges them again.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import RESULTS
from hotloop.core.case.case import Case
from hotloop.core.storage.files import make_folder, write_file, write_json
from hotloop.machine.detect import detect
from hotloop.rules.diagnose import diagnose

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotloop.core.finding import Diagnosis

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
RECORDED = ROOT / "tests" / "golden" / "recorded"
ELSEWHERE = "/project"  # what stands for the checkout in a recorded case
KEPT = 60  # entries of each list of a recorded case


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A script, and what was written down about it before it was looked at."""

    name: str
    script: Path
    cause: Mapping[str, Any] | None  # None: a clean script

    @property
    def places(self) -> set[tuple[str, int]]:
        """Return (file, line) of all lines that name the cause; none if its remedy has no line."""
        assert self.cause is not None
        file = str(self.script.parent / self.cause["file"])
        return {(file, line) for line in self.cause["lines"]}


def examples() -> Iterator[Example]:
    """Yield the slow scripts, those of frameworks, the blind ones and the clean ones."""
    for folder in ("slow", "blind", "blind2"):
        for cause in sorted((EXAMPLES / folder).glob("*/cause.json")):
            read = json.loads(cause.read_text())
            name = f"{folder}/{cause.parent.name}"
            yield Example(name=name, script=cause.parent / "train.py", cause=read)
    for cause in sorted((EXAMPLES / "slow").glob("*/*.json")):
        if cause.name != "cause.json" and cause.with_suffix(".py").exists():
            read = json.loads(cause.read_text())
            name = f"{cause.parent.name}/{cause.stem}"
            yield Example(name=name, script=cause.with_suffix(".py"), cause=read)
    for script in sorted((EXAMPLES / "clean").glob("*.py")):
        yield Example(name=f"clean/{script.stem}", script=script, cause=None)


def observed(example: Example, seconds: float) -> tuple[Case | str, float]:
    """Run the doctor on it as a user would; return the case, or what failed, and the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "seen")
        command = [sys.executable, "-m", "hotloop", "doctor", "--time", f"{seconds:g}"]
        began = time.perf_counter()
        done = subprocess.run(
            [*command, "--out", str(out), str(example.script), "--out", str(Path(folder, "out"))],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=20 * seconds,
            check=False,
        )
        took = time.perf_counter() - began
        if done.returncode or not (out / "case.json").exists():
            return f"ended with {done.returncode}: {done.stderr[-2000:]}", took
        return Case.from_json(json.loads((out / "case.json").read_text())), took


def doctored(script: Path, *options: str, cwd: Path | None = None) -> tuple[Case, float]:
    """Run the doctor on a script, in an empty folder unless told; return the case and the seconds.

    Raises CalledProcessError if the script fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "seen")
        command = [sys.executable, "-m", "hotloop", "doctor", *options, "--out", str(out)]
        began = time.perf_counter()
        subprocess.run(
            [*command, str(script)], cwd=cwd or folder, capture_output=True, check=True, timeout=600
        )
        took = time.perf_counter() - began
        return Case.from_json(json.loads((out / "case.json").read_text())), took


def verdict(example: Example, diagnosis: Diagnosis) -> tuple[bool, str]:
    """Return whether the doctor was right, and its first finding."""
    said_of_machine = "H12 cpu_starved"  # other processes here, whatever the script
    loud = [
        found
        for found in diagnosis.findings
        if found.severity != "note" and found.rule != said_of_machine
    ]
    if example.cause is None:
        said = "; ".join(f"{found.rule}: {found.claim}" for found in loud)
        return not loud, said or "nothing above a note"
    if not diagnosis.findings:
        return False, "no findings"
    first = diagnosis.findings[0]
    named = {(place.file, place.line) for place in first.places}
    where = ", ".join(f"{Path(place.file).name}:{place.line}" for place in first.places[:3])
    accepted = example.cause.get("rules")  # none are known of scripts that are still blind
    right = not example.places or bool(named & example.places)
    right = right and (accepted is None or first.rule.split()[0] in accepted)
    return right, f"{first.rule} ({first.severity}) at {where}: {first.claim}"


def record(name: str, case: Case, kept: int = KEPT) -> Path:
    """Keep a case for the suite; return its file."""
    path = RECORDED / f"{name.replace('/', '-')}.json"
    keep(path, case, kept, {str(ROOT): ELSEWHERE, r"/tmp/\w+": "/run"})
    return path


def keep(path: Path, case: Case, kept: int, stands: Mapping[str, str]) -> None:
    """Write a case without this machine's paths, and with at most `kept` entries of each list.

    `stands` has patterns of paths, and what stands for them.
    """
    text = json.dumps(_short(case.to_json(), kept), separators=(",", ":"))
    own = {sys.base_prefix: "/python", str(Path.home()): "/home/me"}
    for pattern, stand in {**stands, **own}.items():
        text = re.sub(pattern, stand, text)
    make_folder(path.parent)
    write_file(path, text + "\n")


def recorded(path: Path) -> Case:
    """Return a case that was kept, with the paths of this checkout."""
    return Case.from_json(json.loads(path.read_text().replace(ELSEWHERE, str(ROOT))))


def _short(value: Any, kept: int) -> Any:
    if isinstance(value, dict):
        longest = {"stacks": value["stacks"][:kept]} if "stacks" in value else {}
        return {key: _short(item, kept) for key, item in {**value, **longest}.items()}
    if isinstance(value, list):
        step = max(1, -(-len(value) // kept))
        return [_short(item, kept) for item in value[::step]]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print a line each, write the JSON; 1 when a cause was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names; default: all")
    parser.add_argument("--time", type=float, default=40.0, metavar="S")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args(argv)
    rows = []
    for example in examples():
        if options.names and not any(name in example.name for name in options.names):
            continue
        case, took = observed(example, options.time)
        failed = isinstance(case, str)
        right, said = (False, case) if failed else verdict(example, diagnose(case, strict=True))
        rows.append(
            {"name": example.name, "right": right, "first": said, "seconds": round(took, 1)}
        )
        print(
            f"{'right' if right else 'WRONG':<6} {example.name:<34} {took:5.1f} s  {said}",
            flush=True,
        )
        if options.record and not failed:
            record(example.name, case)
    wrong = sum(not row["right"] for row in rows)
    print(f"{len(rows) - wrong} of {len(rows)} right")
    if not options.names:
        found = {"schema": 1, "hardware": detect().to_json(), "rows": rows}
        write_json(RESULTS / "diagnosed-cpu.json", found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
