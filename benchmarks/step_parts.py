"""Where the time of a training step goes on a CPU, for hotloop and for the peer's best loop.

python -m benchmarks.step_parts [CASE ...]

CASE is one of benchmarks.recipes (classifier-long, classifier-short, chat, expert), the short
rows with BERT's dropout (classifier-dropout), or char-lm (the model of docs/quality.md, by hotloop
alone); without one, all of them. Each contestant has a process of its own: steps without a profiler
for the seconds of a step, then steps under torch.profiler, whose operators' own seconds are summed
up by kind. What no operator took is "between operators": Python, the loop, the profiler itself.
The products with weights are then made alone, with the shapes that were seen and nothing between
them: no training takes less time for them as long as torch makes them. All is for 1,000 tokens
without padding. Writes benchmarks/results/step-parts.json after each case.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import string
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from benchmarks import loops, recipes
from benchmarks.measure import Load
from benchmarks.quality import SHAKESPEARE
from benchmarks.recipes import BEST, OWN, THREADS
from benchmarks.table import RESULTS
from benchmarks.turns import Finished
from hotloop.core.storage.files import write_json
from hotloop.machine.detect import detect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OUT = RESULTS / "step-parts.json"
LONG = 50  # steps to warm up, to time and to profile: the Trainer sorts each 50 batches by length
LAPS = 9  # readings of the products alone
PRODUCTS, REST = "products with weights", "between operators"
OF_PRODUCTS = {"aten::mm": 0, "aten::addmm": 1}  # where the two factors' shapes begin
KINDS = {  # operators by the beginning of their names after ::, the first that fits
    PRODUCTS: ("mm", "addmm"),
    "attention": ("bmm", "baddbmm", "_scaled_dot_product", "_softmax", "_flash_attention"),
    "loss": ("_log_softmax", "nll_loss", "logsumexp"),
    "optimizer": ("_fused_adam", "_foreach", "_amp"),
    "dropout": ("bernoulli", "native_dropout", "random_"),
    "layer norms": ("native_layer_norm", "_fused_rms_norm"),
    "copies and casts": ("copy_", "cat", "stack", "fill_", "zero_"),
    "other operators": ("",),
}
CHARS, DROPOUT = "char-lm", "classifier-dropout"
SHORT = recipes.CASES["classifier-short"]
CASES = {
    **recipes.CASES,
    DROPOUT: replace(
        SHORT,
        title=SHORT.title.replace(",", ", dropout 0.1,", 1),
        sizes=replace(SHORT.sizes, dropout=0.1),
    ),
}
CHARACTERS = string.ascii_letters + string.digits + " .\n"  # 65, as many as the text of the row has


@dataclass(slots=True, kw_only=True)
class Steps:
    """Times the steps of a loop that pulls its batches, then profiles some and ends the loop."""

    tokens_of: Callable[[int], int]  # steps -> tokens that they were given so far
    plain: float = 0.0  # seconds for 1,000 tokens
    profiled: float = 0.0
    tokens: int = 0  # of the latest steps
    before: int = 0
    steps: int = 0
    began: float = 0.0
    profiler: Any = field(default_factory=lambda: torch.profiler.profile(record_shapes=True))

    def pull(self) -> None:
        """Note that a step begins. Raises Finished after the last."""
        seconds, before = time.perf_counter() - self.began, self.before
        if self.steps % LONG == 0:
            self.before = self.tokens_of(self.steps)
            self.tokens = self.before - before
        if self.steps == 2 * LONG:
            self.plain = 1000 * seconds / self.tokens
            self.profiler.__enter__()
        elif self.steps == 3 * LONG:
            self.profiled = 1000 * seconds / self.tokens
            self.profiler.__exit__(None, None, None)
            raise Finished
        if self.steps % LONG == 0:
            self.began = time.perf_counter()
        self.steps += 1


def parts(steps: Steps, dtype: torch.dtype) -> dict[str, Any]:
    """Return the milliseconds for 1,000 tokens, whole and by kind."""
    of_kinds: Counter[str] = Counter()
    shapes: Counter[tuple[int, int, int]] = Counter()
    for one in steps.profiler.key_averages(group_by_input_shape=True):
        of_kinds[kind(one.key)] += one.self_cpu_time_total / steps.tokens
        if (at := OF_PRODUCTS.get(one.key)) is not None:
            (rows, inner), (_, columns) = one.input_shapes[at : at + 2]
            shapes[rows, inner, columns] += one.count
    whole = 1000 * steps.profiled
    work = sum(2 * rows * inner * columns * n for (rows, inner, columns), n in shapes.items())
    return {
        "ms": 1000 * steps.plain,
        "profiled_ms": whole,
        "kinds_ms": {**of_kinds, REST: whole - sum(of_kinds.values())},
        "products_alone_ms": 1e6 * alone(shapes, dtype) / steps.tokens,
        "products_gflop": work / steps.tokens / 1e6,
    }


def kind(operator: str) -> str:
    """Return the kind of an operator."""
    name = operator.rpartition("::")[2]
    return next(each for each, beginnings in KINDS.items() if name.startswith(beginnings))


def alone(shapes: Counter[tuple[int, int, int]], dtype: torch.dtype) -> float:
    """Return the seconds that the products take alone: the median of some laps over all shapes."""
    factors = [
        (torch.ones(rows, inner, dtype=dtype), torch.ones(inner, columns, dtype=dtype), count)
        for (rows, inner, columns), count in shapes.items()
    ]
    found = []
    for _ in range(LAPS):
        began = time.perf_counter()
        for left, right, count in factors:
            for _ in range(count):
                left @ right
        found.append(time.perf_counter() - began)
    return median(found)


def profiled(case: str, row: str, folder: Path) -> dict[str, Any]:
    """Return the parts of a row's step, in this process."""
    torch.set_num_threads(THREADS)
    is_bf16 = detect("cpu").why_no_bf16() is None
    if case == CHARS:
        settings = [f"{key}={value}" for key, value in SHAKESPEARE.items()]
        text = "".join(random.Random(0).choices(CHARACTERS, k=1_000_000))
        (folder / "text.txt").write_text(text)
        course = loops.assembly([f"data.path={folder / 'text.txt'}", *settings])
        tokens = SHAKESPEARE["training.batch_size"] * SHAKESPEARE["model.context"]
        steps = Steps(tokens_of=lambda number: tokens * number)
        run = functools.partial(loops.hotloop, loops.Course(course, steps.pull))
    else:
        made = recipes.contestant(CASES[case], folder, row)
        steps = Steps(tokens_of=lambda _: made.taken.tokens)
        made.pull = steps.pull
        run = functools.partial(made.run, made)
    try:
        run()
    except Finished:
        return parts(steps, torch.bfloat16 if is_bf16 else torch.float32)
    raise RuntimeError(f"{case}, {row}: the loop ended by itself")


def main(argv: Sequence[str] | None = None) -> int:
    """Profile the cases that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="CASE")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)  # case, row, folder
    options = parser.parse_args(argv)
    if options.child:
        case, row, folder = options.child
        warnings.simplefilter("ignore")
        found = profiled(case, row, Path(folder))
        (Path(folder) / "parts.json").write_text(json.dumps(found))
        return 0
    names = options.names or [*CASES, CHARS]
    if unknown := [name for name in names if name not in (*CASES, CHARS)]:
        parser.error(
            f"no case is called {', '.join(unknown)}; there are {', '.join(CASES)}, {CHARS}"
        )
    for name in names:
        load, rows = Load(), {}
        with tempfile.TemporaryDirectory() as folder:
            if name != CHARS:
                recipes.prepare(CASES[name], Path(folder))
            for row in (OWN,) if name == CHARS else (OWN, BEST):
                words = [
                    sys.executable,
                    "-m",
                    "benchmarks.step_parts",
                    "--child",
                    name,
                    row,
                    folder,
                ]
                subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
                rows[row] = json.loads((Path(folder) / "parts.json").read_text())
                print(name, row, json.dumps(rows[row]), flush=True)
        written = json.loads(OUT.read_text()) if OUT.is_file() else {}
        machine = detect()
        cpu = f"{machine.cores:g} cores, {machine.name}"
        title = CASES[name].title if name != CHARS else "char-lm as in the table"
        written[name] = {"title": title, "rows": rows, "others": load.others(), "cpu": cpu}
        write_json(OUT, written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
