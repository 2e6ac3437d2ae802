"""Turns results into text: a table for the screen and docs/benchmarks.md, both from the JSON.

python -m benchmarks.table   writes docs/benchmarks.md anew
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop.core.units import many

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["lines", "page", "quartiles", "shown"]

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
ORDER = (
    "engine_step",
    "feeding",
    "packing",
    "tokenising",
    "collating",
    "adapters",
    "router-mixed",
    "router-features",
    "char_lm_plans",
    "recipes-classifier-long",
    "recipes-classifier-long-dropout",
    "recipes-classifier-short",
    "recipes-classifier-short-dropout",
    "recipes-chat",
    "recipes-expert",
    "checkpointing",
    "startup",
    "watching",
)
DOCTOR = """`python -m benchmarks.gpu.doctor` on the scripts of `examples/gpu`. They were
written for this doctor, so this is no measure of unseen code. Right: the first finding is of a rule
that the script is planted for and names its line, if it has one; or nothing at warn or above is
said of an innocent script. What each run taught is in docs/log.md.
"""
HEAD = """# Benchmarks against other tools

Written by `python -m benchmarks.table` from `benchmarks/results/*.json`; do not edit. `make bench`
measures anew. Rows are taken by turns in one run; medians with quartiles in brackets; a ratio is
the median over the pairs of one round. Absolute times belong to the machine and the day, ratios of
one run count. A goal is REACHED when the worse quartile keeps it, MISSED when the better one does
not, and UNKNOWN in between, with fewer than 20 pairs, or when the machine was busy. W1 and U1 are
judged by the 95 % interval of the median instead.
"""


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return (lower quartile, median, upper quartile)."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def shown(value: float) -> str:
    """Return a number with three figures or more and no exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.5f}"


def _spread(values: Sequence[float]) -> str:
    low, middle, high = map(shown, quartiles(values))
    return f"{middle} ({low}..{high})"


def _rows(result: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield the cells of the table, the head first."""
    rows, base, quantities = result["rows"], result["base"], result["quantities"]
    first = quantities[0]
    yield ["", *quantities, f"x {base}", "n"]
    for name, row in rows.items():
        values = row[first]["readings"]
        cells = [_spread(row[q]["readings"]) if q in row else "" for q in quantities]
        ratio = ""
        against = rows[base][first]["readings"] if base in rows and name != base else []
        if len(against) == len(values):
            ratio = _spread([a / b for a, b in zip(values, against, strict=True)])
        yield [name, *cells, ratio, str(len(values))]


def _facts(result: Mapping[str, Any]) -> Iterator[str]:
    machine, others = result["hardware"], result["others_cores"]
    busy = " BUSY: absolute times say nothing." if result["busy"] else ""
    cores = many(machine["cores"], "core")
    yield (
        f"{machine['name']}, {cores}, compute threads: {result['threads']}, "
        f"{result['when']}, took {result['took_s']:.0f} s. Others used {others['before']:.2f} "
        f"cores before and {others['during']:.2f} during the run.{busy}"
    )
    floors = ", ".join(f"{name} {shown(value)}" for name, value in result["floors"].items())
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    yield f"Machine floors: {floors or 'not taken'}. Versions: {versions}."


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield one result as Markdown that can be read on a screen as well."""
    yield f"## {result['title']}"
    yield ""
    yield from _facts(result)
    yield ""
    table = list(_rows(result))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for number, row in enumerate(table):
        yield f"| {' | '.join(c.ljust(w) for c, w in zip(row, widths, strict=True))} |"
        if number == 0:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    yield ""
    yield from (f"- not run, {name}: {why}" for name, why in result["absent"].items())
    for goal in result["goals"]:
        value = goal.get("value")
        got = "" if value is None else "{1} ({0}..{2}), ".format(*map(shown, value))
        busy = " [busy]" if result["busy"] else ""
        yield f"- {goal['text']}: {got}n {goal['n']}: **{goal['verdict']}**{busy * bool(got)}"
    yield from (f"- {note}" for note in result["notes"])
    yield ""


def page(folder: Path = RESULTS) -> str:
    """Return docs/benchmarks.md for the results of a folder; what is not there is named."""
    text = [HEAD]
    for name in ORDER:
        path = folder / f"{name}.json"
        if path.exists():
            text.extend(lines(json.loads(path.read_text())))
        else:
            module, _, case = name.partition("-")
            run = f"python -m benchmarks.{module} {case}".strip()
            text.append(f"## {name}\n\nNot measured: run `{run}`.\n")
    text.extend(_gpu(folder))
    return "\n".join(text)


def _gpu(folder: Path) -> Iterator[str]:
    """Yield the ladders of `make gpu` and what the doctor said there, or that there is none."""
    results = [json.loads(path.read_text()) for path in sorted(folder.glob("gpu-*.json"))]
    ladders = [result for result in results if "ladder" in result]
    yield "## On a GPU: char-lm plan by plan\n"
    if not ladders:
        yield "Not measured: no GPU was at hand. `make gpu` climbs the ladders.\n"
    for result in ladders:
        yield from _ladder(result)
    if scripts := [result for result in results if "scripts" in result]:
        yield "## On a GPU: the doctor\n"
        yield DOCTOR
    for result in scripts:
        yield from _doctor(result)
    for record in sorted(folder.glob("gpu-*/call-*.json")):
        yield from _call(json.loads(record.read_text()), record.parent)


def _call(record: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Yield how the parts of a call of `make gpu` ended, and the rungs of its ladders."""
    yield f"## On a GPU: call {record['call']} of `make gpu`\n"
    yield f"{_machine(record)}\n\n| part | ended | s |\n|---|---|---|"
    for name, part in record["parts"].items():
        yield f"| {name} | {part['state']} | {part.get('seconds', '')} |"
    yield ""
    head = "| rung | tokens/s | of the plain loop | MFU |\n|---|---|---|---|"
    for name, part in record["parts"].items():
        found = json.loads((folder / part["file"]).read_text()) if part.get("file") else {}
        for case, one in found.items():
            if not isinstance(one, dict) or "ladder" not in one:
                continue
            memory = one["steps"].get("memory", {})
            waits = one["steps"].get("waits", {}).get("a step")
            yield f"{name}, {case}: waits a step {waits}; {memory}\n\n{head}"
            yield from map(_rung, one["ladder"]["rows"])
            yield ""


def _rung(row: Mapping[str, Any]) -> str:
    rate, mfu = row["figures"].get("tokens_per_s"), row["figures"].get("mfu")
    factor = (row["against_before"] or {}).get("factor")
    cells = (
        row["name"],
        row["why"] or "" if rate is None else shown(rate),
        "" if factor is None else f"{factor:.2f}",
        "" if mfu is None else f"{mfu:.1%}",
    )
    return f"| {' | '.join(cells)} |"


def _ladder(result: Mapping[str, Any]) -> Iterator[str]:
    yield f"{_machine(result)}\n\n| plan | tokens/s | of the first | n |\n|---|---|---|---|"
    rungs = {
        name: rung.get("tokens_per_s", {}).get("readings")
        for name, rung in result["ladder"].items()
    }
    first = next((statistics.median(rates) for rates in rungs.values() if rates), 1.0)
    for name, rates in rungs.items():
        if rates:
            ratio = statistics.median(rates) / first
            yield f"| {name} | {_spread(rates)} | {ratio:.2f} | {len(rates)} |"
        else:
            yield f"| {name} | {result['ladder'][name].get('failed')} | | 0 |"
    yield ""


def _doctor(result: Mapping[str, Any]) -> Iterator[str]:
    yield f"{_machine(result)}\n"
    yield "| script | planted for | first at warn or above | measured | right |"
    yield "|---|---|---|---|---|"
    for name, one in result["scripts"].items():
        first = next(iter(one.get("loud", ())), {"rule": "nothing", "measured": None})
        planted = " ".join(one["expected"]) or "innocent"
        told = one.get("failed") or first["rule"]
        right = "yes" if one["right"] else "no"
        yield f"| {' | '.join((name, planted, told, first['measured'] or '', right))} |"
    yield ""


def _machine(result: Mapping[str, Any]) -> str:
    hardware = result["hardware"]
    version = hardware.get("versions", {}).get("torch")
    return f"{hardware['name']}, torch {version}" if version else str(hardware["name"])


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
