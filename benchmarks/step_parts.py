"""Where the time of hotloop's training step goes on a CPU.

python -m benchmarks.step_parts [CASE ...]

CASE is one of benchmarks.recipes (classifier-long, classifier-short, chat, expert), the short
rows with BERT's dropout (classifier-dropout), or char-lm (the model of docs/quality.md); without
one, all of them. Each case has a process of its own: steps without a profiler for the seconds of a
step, then steps under torch.profiler, whose operators' own seconds are summed up by kind. What no
operator took is "between operators": Python, the loop, the profiler itself. The products with
weights are then made alone, with the shapes that were seen and nothing between them: no training
takes less time for them as long as torch makes them. All is for 1,000 tokens without padding.
Writes benchmarks/results/step-parts.json after each case, and docs/quality.py puts it on its page.
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
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from benchmarks import loops, recipes
from benchmarks.measure import Load
from benchmarks.quality import SHAKESPEARE
from benchmarks.recipes import OWN, THREADS
from benchmarks.table import RESULTS
from benchmarks.turns import Finished
from hotloop.core.storage.files import write_json
from hotloop.machine.detect import detect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

OUT = RESULTS / "step-parts.json"
WARM, PLAIN, PROFILED, LAPS = 20, 50, 20, 9  # steps; readings of the products alone
PRODUCTS, REST = "products with weights", "between operators"
OF_PRODUCTS = {"aten::mm": 0, "aten::addmm": 1}  # where the two factors' shapes begin
KINDS = {  # operators by the beginning of their names after ::, the first that fits
    PRODUCTS: ("mm", "addmm"),
    "attention": ("bmm", "baddbmm", "_scaled_dot_product", "_softmax", "_flash_attention"),
    "loss": ("_log_softmax", "nll_loss", "logsumexp"),
    "optimizer": ("_fused_adam", "_foreach", "_amp"),
    "dropout": ("bernoulli", "native_dropout", "random_"),
    "layer norms": ("native_layer_norm", "_fused_rms_norm"),
    "copies, casts and fills": ("copy_", "cat", "stack", "fill_", "zero_"),
    "other operators": ("",),
}
CHARS = "char-lm"
CASES = {
    **{name: case for name, case in recipes.CASES.items() if not case.sizes.dropout},
    "classifier-dropout": recipes.CASES["classifier-short-dropout"],
}
TITLES = {name: case.title.removeprefix("U1 ") for name, case in CASES.items()}
TITLES[CHARS] = "char-lm 4 x 128, 12 rows of 64 characters"
CHARACTERS = string.ascii_letters + string.digits + " .\n"  # 65, as many as tinyshakespeare has


@dataclass(slots=True, kw_only=True)
class Steps:
    """Times the steps of a loop that pulls its batches, then profiles some and ends the loop."""

    tokens_of: Callable[[int], int]  # steps -> tokens that they were given so far
    plain: float = 0.0  # seconds for 1,000 tokens
    profiled: float = 0.0
    tokens: int = 0  # of the latest steps
    steps: int = 0
    profiler: Any = field(default_factory=lambda: torch.profiler.profile(record_shapes=True))
    _before: int = 0
    _began: float = 0.0

    def pull(self) -> None:
        """Note that a step begins. Raises Finished after the last."""
        seconds, before = time.perf_counter() - self._began, self._before
        if self.steps in (WARM, WARM + PLAIN, WARM + PLAIN + PROFILED):
            self._before = self.tokens_of(self.steps)
            self.tokens = self._before - before
        if self.steps == WARM + PLAIN:
            self.plain = 1000 * seconds / self.tokens
            self.profiler.__enter__()
        elif self.steps == WARM + PLAIN + PROFILED:
            self.profiled = 1000 * seconds / self.tokens
            self.profiler.__exit__(None, None, None)
            raise Finished
        if self.steps in (WARM, WARM + PLAIN):
            self._began = time.perf_counter()
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


def alone(shapes: Mapping[tuple[int, int, int], int], dtype: torch.dtype) -> float:
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


def profiled(case: str, folder: Path) -> dict[str, Any]:
    """Return the parts of a case's step, in this process."""
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
        recipes.prepare(CASES[case], folder)
        made = recipes.contestant(CASES[case], folder, OWN)
        steps = Steps(tokens_of=lambda _: made.taken.tokens)
        made.pull = steps.pull
        run = functools.partial(made.run, made)
    try:
        run()
    except Finished:
        return parts(steps, torch.bfloat16 if is_bf16 else torch.float32)
    raise RuntimeError(f"{case}: the loop ended by itself")


def main(argv: Sequence[str] | None = None) -> int:
    """Profile the cases that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="CASE")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)  # case, folder
    options = parser.parse_args(argv)
    if options.child:
        case, folder = options.child[0], Path(options.child[1])
        warnings.simplefilter("ignore")
        (folder / "parts.json").write_text(json.dumps(profiled(case, folder)))
        return 0
    names = options.names or list(TITLES)
    if unknown := [name for name in names if name not in TITLES]:
        parser.error(f"no case is called {', '.join(unknown)}; there are {', '.join(TITLES)}")
    for name in names:
        load = Load()
        with tempfile.TemporaryDirectory() as folder:
            words = ["-m", "benchmarks.step_parts", "--child", name, folder]
            subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
            found = json.loads((Path(folder) / "parts.json").read_text())
        print(name, json.dumps(found), flush=True)
        written = json.loads(OUT.read_text()) if OUT.is_file() else {}
        machine = detect()
        cpu = f"{machine.cores:g} cores, {machine.name}"
        written[name] = {"title": TITLES[name], **found, "others": load.others(), "cpu": cpu}
        write_json(OUT, written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
