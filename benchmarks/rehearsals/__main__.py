"""Compares the estimates of `hotloop rehearse` with published throughputs, and fits its model.

    python -m benchmarks.rehearsals run [NAME ...]    counts the operators of each figure's script
    python -m benchmarks.rehearsals fit               fits two shares to half of the figures
    python -m benchmarks.rehearsals table             each figure beside its estimate

`run` needs the environment of `make test-nullcard`, and keeps what it counts in
benchmarks/results/rehearsals.json; `fit` writes src/hotloop/rehearse/kernel_model.json.
"""

import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path

from hotloop.core.case.rehearsal import KernelWork
from hotloop.core.codec import from_json, to_json
from hotloop.nullcard.cards import CARDS
from hotloop.rehearse import kernel_model
from hotloop.rehearse.kernel_model import KernelModel, device_seconds
from hotloop.rehearse.rehearse import rehearse

HERE = Path(__file__).parent
FIGURES = json.loads((HERE / "published.json").read_text())["figures"]
COUNTED = HERE.parent / "results" / "rehearsals.json"
WRITTEN = Path(kernel_model.__file__).with_suffix(".json")
ENOUGH = 400_000  # MiB
GRID = [share / 100 for share in range(20, 101)]


def key(figure):
    """Return the name of a figure with its card."""
    return f"{figure['name']} on {figure['card']}"


def counted():
    """Return what was counted so far."""
    return json.loads(COUNTED.read_text()) if COUNTED.exists() else {}


def run(names):
    """Count the operators of a step of each named figure, or of all that are not counted yet."""
    for figure in FIGURES:
        known = counted()
        if (names and figure["name"] not in names) or (not names and key(figure) in known):
            continue
        words = [str(HERE / f"{figure['script']}.py")]
        for option, value in figure["options"].items():
            words += [f"--{option}", str(value)]
        # Memory is no part of the estimate: the loss of MPT was computed in less.
        card = replace(CARDS[figure["card"]], memory_mib=ENOUGH)
        result = rehearse(card, words, cwd=Path.cwd(), steps=1)
        assert result.run.work, (result.verdicts, result.run.raised)
        print(key(figure), result.verdicts[0].text, f"{result.run.host_seconds:.3f} s of host")
        known[key(figure)] = {
            "torch": result.run.torch,
            "peak_reserved": result.run.peak_reserved,
            "work": [to_json(one) for one in result.run.work],
        }
        COUNTED.write_text(json.dumps(known) + "\n")


def estimated(figure, model, known):
    """Return the estimate of the figure's throughput: samples or tokens a second."""
    options = figure["options"]
    samples = options["batch"] * options.get("accumulation", 1) * options.get("tokens", 1)
    work = [from_json(KernelWork, one) for one in known[key(figure)]["work"]]
    return samples / device_seconds(work, CARDS[figure["card"]].spec, model)


def errors(figures, model, known):
    """Return how far each estimate is from the published figure, as a share of it."""
    return [abs(estimated(f, model, known) / f["per_second"] - 1) for f in figures]


def shares(compute, bandwidth):
    """Return a model without its errors."""
    unknown = dict.fromkeys(("fitted", "held_back"), 0)
    unknown |= dict.fromkeys(("median_error", "largest_error"), 0.0)
    return KernelModel(compute=compute, bandwidth=bandwidth, **unknown)


def fit():
    """Fit the two shares to the figures that are not held back; write them with the errors."""
    known = counted()
    fitted = [figure for figure in FIGURES if not figure["held_back"]]
    held_back = [figure for figure in FIGURES if figure["held_back"]]
    models = [shares(compute, bandwidth) for compute in GRID for bandwidth in GRID]
    best = min(models, key=lambda model: sum(e * e for e in errors(fitted, model, known)))
    wrong = errors(held_back, best, known)
    made = {
        "compute": best.compute,
        "bandwidth": best.bandwidth,
        "fitted": len(fitted),
        "held_back": len(held_back),
        "median_error": round(statistics.median(wrong), 3),
        "largest_error": round(max(errors(FIGURES, best, known)), 3),
    }
    WRITTEN.write_text(json.dumps(made, indent=2) + "\n")
    print(made)


def table():
    """Print each figure beside its estimate."""
    known, model = counted(), KernelModel(**json.loads(WRITTEN.read_text()))
    print("| figure | published | estimated | error | |\n|---|---|---|---|---|")
    for figure in FIGURES:
        guess = estimated(figure, model, known)
        held = "held back" if figure["held_back"] else "fitted"
        error = guess / figure["per_second"] - 1
        row = (key(figure), f"{figure['per_second']:,.0f}", f"{guess:,.0f}", f"{error:+.0%}", held)
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    verb, *names = sys.argv[1:]
    {"run": lambda: run(names), "fit": fit, "table": table}[verb]()
