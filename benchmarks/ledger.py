"""Compares the ledger of each example, without rules, with the fault that its author planted.

    python -m benchmarks.ledger [NAME ...]

Runs `hotloop doctor --no-rules` on the scripts of examples/slow, blind, blind2 and planted whose
fault costs time, and on examples/clean; NAME is a part of a path. Writes the largest avoidable row
of each to benchmarks/results/ledger.json: whether it is of the right kind, and whether its line is
one of the truth's (cause.json, the JSON beside the script, or PLANTED). What the script and its
imports do once is in no share.

A fault that makes operators inefficient has no avoidable row: an experiment has to win it back.
Those scripts are run and named (INEFFICIENT), and are in no rate.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.diagnosed import doctored

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "ledger.json"
ONCE = {"start", "import", "compiling", "after training"}
ROW = {  # class, or a rule that names the script's fault -> rows that are right
    "evaluation_bound": ("evaluating",),
    "pad_to_max": ("padding",),
    "slow_getitem": ("waiting for data", "repeated"),
    "after_step_work": ("logging",),
    "double_attention": ("dead", "repeated"),
    "save_every_improvement": ("saving",),
    "H19": ("waiting for data",),
    "P8": ("dead",),
    "D22": ("padding",),
    "H20": ("evaluating",),
    "D28": ("waiting for data", "repeated"),
    "H21": ("repeated",),
    "H22": ("evaluating",),
}
INEFFICIENT = {
    "slow/config_keys": "batches of 4: more host time and smaller operators for each sample",
    "slow/overthreaded_cpu": "the same operators, on more threads than cores",
    "slow/stride1_windows": "more steps than were meant; each of them is useful",
    "blind/signal_codebook": "one product written as a broadcast difference",
    "blind2/basket2vec": "dense updates of sparse gradients",
}
PLANTED: dict[str, tuple[str, tuple[int, ...]]] = {  # row and lines
    "disk_bound": ("waiting for data", (*range(22, 25),)),
    "disk_cold": ("waiting for data", (*range(23, 27),)),
    "head_only": ("dead", (*range(14, 22), 27)),
    "kept_losses": ("evaluating", (*range(15, 24), 35)),
    "loader_full_cores": ("waiting for data", (*range(15, 24),)),
    "loader_held_up": ("waiting for data", (*range(20, 24),)),
    "loader_late_reads": ("waiting for data", (*range(20, 24),)),
    "loader_one_worker": ("waiting for data", (*range(15, 24), 28)),
    "loader_python_collate": ("waiting for data", (*range(25, 33),)),
    "loader_tiny_epochs": ("waiting for data", (10, 16)),
    "log_every_step": ("logging", (*range(24, 30),)),
    "stacked_rows": ("waiting for data", (9, 14)),
}
# Not run. Faults of the result: adapted, asked_in_vain, bfloat16_weights, boasted_speed,
# clipped_scaled, diverging, half_precision, loader_whole_stream, made_up, no_warmup, one_class,
# padded_labels, resumed, same_noise, soft_labels, wiped_gradients. Danger without a cost:
# loader_small_shm. Below 5 %: conv_habits. Several ranks: first_rank_late, parallel_defaults. A
# GPU: large_products. Once, in no share: compiled_lengths. Rows that only an experiment can call
# avoidable: checkpointed (recomputed), masked_tokens (inefficient), left_over and moving_average
# (host), steps_now_and_then (the script's own work, on one step of 20).


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A script and what is true of it."""

    script: Path
    rows: tuple[str, ...] = ()  # kinds that are right; empty: no fault, or an inefficient one
    lines: frozenset[int] = frozenset()
    why_not: str | None = None  # why it is in no rate

    @property
    def name(self) -> str:
        """Return the script's path inside the repository."""
        return str(self.script.relative_to(ROOT))


def examples() -> Iterator[Example]:
    """Yield every script with its truth."""
    for folder in ("slow", "blind", "blind2"):
        for truth in sorted((ROOT / "examples" / folder).rglob("*.json")):
            is_cause = truth.name == "cause.json"
            script = truth.with_name("train.py") if is_cause else truth.with_suffix(".py")
            content = json.loads(truth.read_text())
            if not script.exists() or content.get("kind") != "speed":
                continue
            why_not = INEFFICIENT.get(f"{folder}/{script.parent.name}")
            names = (content.get("class"), *content["rules"])
            rows = next((ROW[name] for name in names if name in ROW and why_not is None), ())
            yield Example(
                script=script, rows=rows, lines=frozenset(content["lines"]), why_not=why_not
            )
    for name, (row, lines) in PLANTED.items():
        script = ROOT / "examples" / "planted" / f"{name}.py"
        yield Example(script=script, rows=(row,), lines=frozenset(lines))
    for script in sorted((ROOT / "examples" / "clean").glob("*.py")):
        yield Example(script=script)


def judged(example: Example) -> dict[str, Any]:
    """Return one row of the table."""
    case: dict[str, Any] = doctored(example.script, "--no-rules")[0].to_json()
    ledger = case["ledger"]
    rows = [row for row in ledger["rows"] if row["name"] not in ONCE]
    whole = sum(row["seconds"] for row in rows)
    excess = {row["name"]: row["seconds"] - (row.get("needed") or 0.0) for row in rows}
    avoidable = sorted((r for r in rows if r["avoidable"]), key=lambda row: -excess[row["name"]])
    first = avoidable[0] if avoidable else None
    line = first and (first["place"] or {}).get("line")
    every = sum(row["seconds"] for row in ledger["rows"])
    unaccounted = excess.get("unaccounted", excess.get("not split", 0.0))
    result = {
        "script": example.name,
        "row": first and first["name"],
        "share": first and round(excess[first["name"]] / whole, 3),
        "place": line,
        "avoidable": round(sum(excess[row["name"]] for row in avoidable) / whole, 3),
        "unaccounted": round(unaccounted / whole, 3),
        "sum": round(every / sum(case["wall"].values()), 4),  # rows to the wall time
        "not_split": ledger["not_split"],
    }
    if example.why_not is not None:
        result["in no rate"] = example.why_not
    elif example.rows:
        result["right row"] = first is not None and first["name"] in example.rows
        result["right line"] = line in example.lines
    return result


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rates of all results."""
    faults = [one for one in results if "right row" in one]
    right = [one for one in faults if one["right row"] and one["right line"]]
    clean = [one["avoidable"] for one in results if "/clean/" in one["script"]]
    return {
        "scripts with a fault": len(faults),
        "right row and line": len(right),
        "wrong": [one["script"] for one in faults if one not in right],
        "most avoidable of a clean script": max(clean, default=None),
        "most unaccounted": max((one["unaccounted"] for one in results), default=None),
        "sums off by": max((abs(1 - one["sum"]) for one in results), default=None),
    }


def main() -> None:
    """Judge all scripts, and write each result when it is known."""
    results: list[dict[str, Any]] = []
    for example in examples():
        if sys.argv[1:] and not any(name in example.name for name in sys.argv[1:]):
            continue
        results.append(judged(example))
        print(json.dumps(results[-1]), flush=True)
        if not sys.argv[1:]:
            content = {"summary": summary(results), "scripts": results}
            RESULT.write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(summary(results), indent=1))


if __name__ == "__main__":
    main()
