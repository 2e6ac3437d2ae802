"""What hotloop does on a GPU, in three calls of at most 9 minutes each.

    python -m benchmarks.gpu [--call N] [--only PART] [--list]

Without --call it makes the first call that has no result yet. Nothing is installed: each part runs
under this Python with the packages that are there. Results go to benchmarks/results/gpu-<GPU>/, a
file a part, and to $OUT as well where that is set. --short has tiny models and few steps: it shows
that everything runs (`make rehearse-gpu`, on a GPU that is none).
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.gpu.calls import CALLS
from benchmarks.gpu.flight import Call, fly, folder_of
from benchmarks.table import RESULTS
from hotloop.machine.detect import detect


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--call", type=int, choices=sorted(CALLS), help="default: the first without a result")
    add("--only", action="append", default=[], metavar="PART", help="a part by name; repeatable")
    add("--short", action="store_true", help="tiny sizes: does it run?")
    add("--list", action="store_true", help="name the calls and their parts, run nothing")
    add("--out", type=Path, metavar="FOLDER", help="where results go (default benchmarks/results)")
    return parser


def _next(folders: list[Path]) -> int | None:
    """Return the first call that has a result in none of the folders."""
    return next(
        (n for n in CALLS if not any((f / f"call-{n}.json").exists() for f in folders)), None
    )


def _listed() -> str:
    lines = []
    for number, call in CALLS.items():
        most = sum(part.limit_s for part in call.parts if not part.is_spare)
        lines.append(f"call {number}, at most {most:.0f} s together")
        for part in call.parts:
            spare = ", if time is left" if part.is_spare else ""
            lines.append(f"  {part.name:<16}{part.limit_s:>4.0f} s  {part.what}{spare}")
            if part.unrehearsed:
                lines.append(f"{'':<25}not rehearsed: {part.unrehearsed}")
    return "\n".join(lines)


def main() -> int:
    """Make a call; 1 if a part of it did not end well."""
    parser = _parser()
    options = parser.parse_args()
    if options.list:
        print(_listed())
        return 0
    hardware = detect()
    if hardware.device != "cuda":
        parser.error(
            "torch finds no GPU here, so there is nothing to measure; on a machine without one, "
            "`make rehearse-gpu` tries the calls"
        )
    out = os.environ.get("OUT")
    folder = folder_of(hardware, options.out or RESULTS)
    copy = folder_of(hardware, Path(out)) if out else None
    number = options.call or _next([folder, *([copy] if copy else [])])
    if number is None:
        parser.error(f"{folder} has the results of all calls; name the one to repeat: --call N")
    call: Call = CALLS[number]
    names = [part.name for part in call.parts]
    if unknown := [name for name in options.only if name not in names]:
        parser.error(f"call {number} has no part {unknown[0]!r}; it has: {', '.join(names)}")
    if options.only:
        call = replace(call, parts=[part for part in call.parts if part.name in options.only])
    record = fly(call, folder, short=options.short, copy=copy)
    ended = {name: part["state"] for name, part in record["parts"].items()}
    print(f"results: {folder}", flush=True)
    return 0 if all(state == "done" for state in ended.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
