"""Diffusion on a CPU: the validation bound and how many sampled words exist, before and after.

    python -m benchmarks.diffusion [--data PATH] [--steps N] [--seeds N ...] [--out FOLDER]

Trains a small model for each seed and draws whole windows from it, with its first weights and with
its best ones. A word is a run of letters that touches no end of its window, where words are cut; it
counts when the training part of the text has it, spelt the same way. The same share of the
validation part's own words says what a perfect sampler would reach. Writes JSON with the hardware.
"""

from __future__ import annotations

import argparse
import datetime
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.table import RESULTS
from hotloop.api import load_run
from hotloop.core.progress import Evaluated
from hotloop.core.storage.files import make_folder, write_json
from hotloop.jobs import train
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request
from hotloop.machine.detect import detect
from hotloop.recipes.building.sampling_options import SamplingOptions
from hotloop.recipes.char_lm.sampling import sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hotloop.core.progress import Message
    from hotloop.jobs.job import PreparedRun

DATA = Path(__file__).parents[2] / "shared" / "data" / "tinyshakespeare" / "input.txt"
SETTINGS = (
    "preset=cpu",
    "objective=diffusion",
    "model.layers=2",
    "model.context=64",
    "training.precision=fp32",
    "training.learning_rate=2e-3",
    "training.min_learning_rate=2e-4",
    "training.batch_size=16",
)
DENOISING_STEPS = (64, 128)
WINDOWS = 32  # drawn for each of them: 2,048 characters
LONG = 3  # letters of a word that chance seldom makes
WORD = re.compile(r"[^\W\d_]+")


def words(texts: Iterable[str]) -> list[str]:
    """Return the runs of letters that touch no end of their text."""
    return [
        match[0]
        for text in texts
        for match in WORD.finditer(text)
        if match.start() > 0 and match.end() < len(text)
    ]


def known(texts: Iterable[str], vocabulary: set[str]) -> dict[str, float | int]:
    """Return how many words the texts have and which share of them is in the vocabulary."""
    every = words(texts)
    found: dict[str, float | int] = {}
    for name, some in (("all", every), ("long", [w for w in every if len(w) >= LONG])):
        found[f"{name}_words"] = len(some)
        found[f"{name}_known"] = sum(w in vocabulary for w in some) / len(some) if some else 0.0
    return found


def untrained(parts: PreparedRun) -> tuple[torch.nn.Module, float]:
    """Return the first weights' model and its bound over the windows that a validation reads."""
    torch.manual_seed(parts.job.seed)
    model, training = parts.job.model().eval(), parts.request.config.training
    count = min(len(parts.job.valid), training.eval_batches * training.batch_size)
    with torch.no_grad():
        loss = parts.job.loss(model, parts.job.valid.batch(0, 0, count).tensors)
    return model, loss.item()


def one_seed(seed: int, settings: Sequence[str], out: Path) -> tuple[dict[str, Any], PreparedRun]:
    """Train one run; return what came of it and its parts."""

    def notify(message: Message) -> None:
        if isinstance(message, Evaluated):
            print(f"seed {seed}  step {message.step}  bound {message.loss:.4f}", flush=True)

    request = fresh_request("char-lm", [*settings, f"seed={seed}"])
    parts = assemble(request, train.silent, lambda: None)
    first, bound = untrained(parts)
    print(f"seed {seed}  step 0  bound {bound:.4f}", flush=True)
    result = train.train(request, out=out, notify=notify)
    if result.reason != "complete":
        raise SystemExit(f"seed {seed} was stopped after step {result.step}: nothing is written")
    trained, vocabulary = load_run(out), parts.data.vocabulary
    training_words = set(words([vocabulary.decode(parts.data.train)]))
    made: dict[str, Any] = {
        "seed": seed,
        "bounds": {"0": bound} | {str(e["step"]): e["loss"] for e in trained.evaluations},
        "best_step": result.best_step,
        "wall_s": dict(result.wall or {}),
        "samples": {},
    }
    for steps in DENOISING_STEPS:
        wanted = SamplingOptions(steps=steps, samples=WINDOWS, seed=seed)
        before = sample(request.config, first, vocabulary, wanted)
        after = trained.sample(steps=steps, samples=WINDOWS, seed=seed)
        shares = {"before": known(before, training_words), "after": known(after, training_words)}
        made["samples"][str(steps)] = {**shares, "texts_after": after[:3]}
        print(f"seed {seed}  {steps} denoising steps  {shares}", flush=True)
    made["real_text"] = known([vocabulary.decode(parts.data.valid)], training_words)
    return made, parts


def main(argv: Sequence[str] | None = None) -> None:
    """Train every seed and write benchmarks/results/diffusion.json."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, default=DATA, help="default %(default)s")
    add("--steps", type=int, default=2000, help="optimizer steps a seed (default %(default)s)")
    add("--seeds", type=int, nargs="+", default=[1, 2, 3], help="default %(default)s")
    add("--out", type=Path, metavar="FOLDER", default=RESULTS, help="where the JSON goes")
    chosen = parser.parse_args(argv)
    settings = [
        *SETTINGS,
        f"data.path={chosen.data}",
        f"training.max_steps={chosen.steps}",
        f"training.warmup_steps={chosen.steps // 10}",
        f"training.eval_every_steps={max(chosen.steps // 8, 1)}",
        "training.eval_batches=100",
    ]
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in chosen.seeds:
            made, parts = one_seed(seed, settings, Path(folder) / str(seed))
            runs.append(made)
    ends = [(run["bounds"]["0"], run["bounds"][str(chosen.steps)]) for run in runs]
    print(
        "bound, median of the seeds: "
        + " -> ".join(f"{statistics.median(one):.4f}" for one in zip(*ends, strict=True))
        + f" nats per character; {sum(last < first for first, last in ends)} of {len(ends)} fell"
    )
    make_folder(chosen.out)
    write_json(
        chosen.out / "diffusion.json",
        {
            "schema": 1,
            "benchmark": "diffusion",
            "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "command": f"python -m benchmarks.diffusion {' '.join(argv or sys.argv[1:])}".strip(),
            "data": chosen.data.name,  # where it lies is this machine's business
            "settings": [each for each in settings if not each.startswith("data.path=")],
            "facts": parts.facts(),
            "hardware": detect("cpu").to_json(),
            "threads": torch.get_num_threads(),
            "windows_drawn": WINDOWS,
            "long_word_letters": LONG,
            "runs": runs,
        },
    )


if __name__ == "__main__":
    main()
