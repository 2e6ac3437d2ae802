"""Does each rule speak of a script that really ran? Runs the doctor on the planted examples.

    python -m benchmarks.planted [NAME ...] [--record]

`examples/planted/NAME.json` says what stands in NAME.py: the rules it is planted for and, where it
matters, the arguments of the doctor (`doctor`), of the script (`arguments`), the number of ranks to
start by torchrun (`ranks`), settings of the environment (`environment`), a command that starts the
doctor (`within`) and how many entries of each list its recorded case needs (`kept`). `--record`
keeps each case under tests/golden/recorded: the suite judges them again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.diagnosed import EXAMPLES, record, recorded
from hotloop import rules
from hotloop.core.case.case import Case
from hotloop.rules.base import unmet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST, KEPT = 300, 30  # seconds of a run; entries of each list of a recorded case, if not more


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A script, and the rules that have to speak of it."""

    name: str
    rules: Sequence[str]  # ids: "D4"
    doctor: Sequence[str] = ("--time", "20")
    arguments: Sequence[str] = ()
    ranks: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    within: Sequence[str] = ()  # "unshare", ...: what starts the doctor, for a smaller machine
    kept: int = KEPT  # entries of each list of the recorded case, where a rule needs more

    @property
    def script(self) -> Path:
        """Return where the script lies."""
        return EXAMPLES / "planted" / f"{self.name}.py"


def planted() -> Iterator[Planted]:
    """Yield what is written down, by name."""
    for path in sorted((EXAMPLES / "planted").glob("*.json")):
        yield Planted(name=path.stem, **json.loads(path.read_text()))


def command(example: Planted, out: Path) -> list[str]:
    """Return the command, as a user types it."""
    doctor = ["doctor", *example.doctor, "--out", str(out), str(example.script), *example.arguments]
    start = [sys.executable, "-m"]
    if example.ranks > 1:
        start += [
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={example.ranks}",
            "-m",
        ]
    return [*example.within, *start, "hotloop", *doctor]


def observed(example: Planted) -> Case | str:
    """Run the doctor in an empty folder; return the case, or what failed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "seen")
        done = subprocess.run(
            command(example, out),
            cwd=folder,
            env={**os.environ, **example.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=MOST,
            check=False,
        )
        case = out / "case.json"
        if not case.exists():
            return f"ended with {done.returncode}: {done.stderr[-2000:]}"
        return Case.from_json(json.loads(case.read_text()))


def speaking(case: Case) -> set[str]:
    """Return the ids of the rules that have something to say of a case, whatever they yield to."""
    return {
        rule.id for rule in rules.ALL if unmet(case, rule.needs) is None and rule.findings(case)
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run, print a line each; 1 when a rule was silent."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="parts of names; default: all")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args(argv)
    failed = 0
    for example in planted():
        if options.names and not any(name in example.name for name in options.names):
            continue
        began = time.perf_counter()
        case = observed(example)
        if isinstance(case, str):
            said, right = case, False
        else:
            if options.record:
                case = recorded(record(f"planted/{example.name}", case, example.kept))
            silent = sorted(set(example.rules) - speaking(case))
            said = f"silent: {', '.join(silent)}" if silent else f"{', '.join(example.rules)} spoke"
            right = not silent
        failed += not right
        took = time.perf_counter() - began
        print(
            f"{'right' if right else 'WRONG':<6}{example.name:<28}{took:5.1f} s  {said}", flush=True
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
