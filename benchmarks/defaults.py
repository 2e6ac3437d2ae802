"""What default settings are worth: trainings that differ in one setting.

python -m benchmarks.defaults DATA [SWEEP ...] [--keep FOLDER]

DATA holds the folders sentence_polarity, snli, text2cypher, text2sql_advising, self_instruct_seed,
tinyshakespeare, wikitext2, xquad, scitldr, mbpp and tico19. The value with the best mean score on
two sets, the default and the default before are compared on a third set. Each training is a command
of its own on one core, one for each core at a time, so no seconds are kept. Values of
training.patience are read off trainings that nothing ends early. With --keep FOLDER, those that the
folder has are not made again: remove it after a change of settings. Results go to
benchmarks/results/defaults.json, and to docs/defaults.md by docs/defaults.py.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from queue import SimpleQueue
from statistics import mean
from typing import TYPE_CHECKING, Any

from benchmarks.plain_decoder import plain_decoder
from benchmarks.quality import TASKS, curve_of
from benchmarks.table import RESULTS
from benchmarks.text_runs import minilm
from hotloop.core.storage.files import write_json
from hotloop.machine.detect import detect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PAGE = RESULTS / "defaults.json"
CHECK_SEEDS = 3
ROWS = {  # set -> rows to train on and to validate on
    "polarity": (2000, 1000),
    "snli": (2000, 1000),
    "databases": (2000, 1000),
    "sql": (1200, 300),
    "instruct": (140, 35),
    "cypher": (1200, 300),
    "few-sql": (200, 100),
    "few-cypher": (200, 100),
}
TEXTS = ("shakespeare", "wiki", "queries")  # of char-lm


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Trainings that differ in one thing."""

    recipe: str
    sets: tuple[str, str]  # on which a value is chosen
    check: str  # the set on which the choice is compared with the value before
    score: str
    was: str  # label of the value before
    now: str  # label of the default that was decided on
    variants: Mapping[str, tuple[str, ...]]  # label -> settings
    model: str = ""  # none: the recipe makes its own
    more: tuple[str, ...] = ()  # settings of all
    seeds: int = 1  # on the first two sets

    @property
    def is_more_better(self) -> bool:
        """Return whether a higher score is better."""
        return self.score != "loss"

    @property
    def is_of_patience(self) -> bool:
        """Return whether its values say when a training ends early."""
        return any(word.startswith(PATIENCE) for words in self.variants.values() for word in words)


def _each(key: str, *values: object) -> dict[str, tuple[str, ...]]:
    return {str(value): (f"{key}={value}",) for value in values}


PATIENCE = "training.patience"
RATE = "training.learning_rate"
WARMUP = "training.warmup_share"
CLASSIFIER: dict[str, Any] = {
    "recipe": "pair-classifier",
    "sets": ("polarity", "snli"),
    "check": "databases",
    "score": "macro_f1",
    "model": "minilm",
}
CHAT: dict[str, Any] = {
    "recipe": "chat-sft",
    "sets": ("sql", "instruct"),
    "check": "cypher",
    "score": "loss",
    "model": "base",
}
ROUTER: dict[str, Any] = {
    "recipe": "task-router",
    "sets": ("sentiment,summaries,code", "questions,code,translation"),
    "check": "sentiment,summaries,translation",
    "score": "tasks",
    "model": "base",
}
CHARACTERS: dict[str, Any] = {
    "recipe": "char-lm",
    "sets": TEXTS[:2],
    "check": TEXTS[2],
    "score": "loss",
}
FEW: dict[str, Any] = {**CHAT, "sets": ("instruct", "few-sql"), "check": "few-cypher"}
STEPS = ("training.max_steps=75", "training.epochs=null")  # of comparisons of learning rates
IN_ANY_ORDER = ("data.group_by_length=false",)
RATES = (2e-5, 5e-5, 1e-4, 2e-4, 4e-4)
HIGHER_RATES = (2e-4, 5e-4, 1e-3, 2e-3, 5e-3)
IA3_RATES = (5e-4, 3e-3, 1e-2, 3e-2)  # 3e-3: the paper's (arXiv 2205.05638)
SMALL = ("preset=cpu", "model.context=64")  # char-lm in a minute on a core
PATIENCES = _each(PATIENCE, "null", 1, 2, 3)
SWEEPS = {
    "chat-order": Sweep(
        **CHAT,
        seeds=2,
        was="true",
        now="false",
        variants=_each("data.group_by_length", "true", "false"),
        more=("adapter.method=none", f"{RATE}=0.001", *STEPS),
    ),
    "router-order": Sweep(
        **ROUTER,
        seeds=2,
        was="true",
        now="false",
        variants=_each("data.group_by_length", "true", "false"),
        more=(
            "phase=1",
            "data.max_length=256",
            "data.validation_share=0.25",
            *(f"data.{task}_size=300" for task in TASKS),
            f"{RATE}=0.002",
        ),
    ),
    "classifier-order": Sweep(
        **CLASSIFIER,
        seeds=2,
        was="true",
        now="true",
        variants=_each("data.group_by_length", "true", "false"),
    ),
    "classifier-rate": Sweep(
        **CLASSIFIER,
        was="5e-05",
        now="5e-05",
        variants=_each(RATE, *RATES),
        more=(*IN_ANY_ORDER, *STEPS),
    ),
    "classifier-rate-lora": Sweep(
        **CLASSIFIER,
        was="5e-05",
        now="0.0005",
        variants=_each(RATE, 5e-5, *HIGHER_RATES),
        more=("adapter.method=lora", *IN_ANY_ORDER, *STEPS),
    ),
    "classifier-preset": Sweep(
        **{**CLASSIFIER, "sets": ("snli", "databases"), "check": "polarity"},
        was="auto",
        now="auto",
        variants=_each("preset", "quick", "auto", "best"),
    ),
    "chat-preset": Sweep(
        **CHAT,
        was="auto",
        now="auto",
        variants=_each("preset", "quick", "auto", "best"),
        more=(f"{RATE}=0.002",),
    ),
    "classifier-rate-dora": Sweep(
        **CLASSIFIER,
        was="0.0005",
        now="0.0005",
        variants=_each(RATE, *HIGHER_RATES[:4]),
        more=("adapter.method=dora", *IN_ANY_ORDER, *STEPS),
    ),
    "classifier-rate-ia3": Sweep(
        **CLASSIFIER,
        was="0.0005",
        now="0.003",
        variants=_each(RATE, *IA3_RATES),
        more=("adapter.method=ia3", *IN_ANY_ORDER, *STEPS),
    ),
    "chat-rate": Sweep(
        **CHAT,
        was="0.0002",
        now="0.0002",
        variants=_each(RATE, *HIGHER_RATES),
        more=("training.batch_size=8", *STEPS),
    ),
    "chat-rate-ia3": Sweep(
        **CHAT,
        was="0.0002",
        now="0.003",
        variants=_each(RATE, 2e-4, *IA3_RATES[1:]),
        more=("adapter.method=ia3", "training.batch_size=8", *STEPS),
    ),
    "expert-batch": Sweep(
        **{**CHAT, "recipe": "expert-sft"},
        was="16",
        now="16",
        variants=_each("training.batch_size", 4, 8, 16),
        more=("data.max_length=512", "training.epochs=1", f"{RATE}=0.002"),
    ),
    "classifier-warmup": Sweep(
        **CLASSIFIER,
        was="0.06",
        now="0.06",
        variants=_each(WARMUP, 0, 0.06, 0.2),
        more=(f"{RATE}=0.0002", *STEPS),
    ),
    "chat-warmup": Sweep(
        **CHAT,
        was="0.03",
        now="0.03",
        variants=_each(WARMUP, 0, 0.03, 0.1),
        more=("training.batch_size=8", f"{RATE}=0.002", *STEPS),
    ),
    "classifier-patience": Sweep(
        **CLASSIFIER,
        was="null",
        now="null",
        variants=PATIENCES,
        more=("training.epochs=6",),
    ),
    "chat-patience": Sweep(
        **FEW,
        was="null",
        now="null",
        variants=PATIENCES,
        more=("adapter.method=none", f"{RATE}=0.001", "training.epochs=12"),
    ),
    "characters-rate": Sweep(
        **CHARACTERS,
        was="0.001",
        now="0.001",
        variants=_each(RATE, 3e-4, 1e-3, 3e-3, 1e-2),
        more=(*SMALL, "training.batch_size=16"),
    ),
    "characters-warmup": Sweep(
        **CHARACTERS,
        was="80",
        now="80",
        variants=_each("training.warmup_steps", 0, 80, 240),
        more=(*SMALL, "training.batch_size=16"),
    ),
    "characters-batch": Sweep(
        **CHARACTERS,
        was="32",
        now="32",
        variants=_each("training.batch_size", 8, 16, 32, 64),
        more=(*SMALL, "training.max_steps=null", "training.epochs=1", "data.max_chars=900000"),
    ),
    "router-rate": Sweep(
        **ROUTER,
        was="0.001",
        now="0.001",
        variants=_each(RATE, 5e-4, 1e-3, 2e-3, 5e-3),
        more=(
            "phase=1",
            "data.max_length=256",
            "data.validation_share=0.25",
            *(f"data.{task}_size=300" for task in TASKS),
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Run:
    """A training of a sweep."""

    sweep: str
    variant: str
    data: str
    seed: int

    def command(self, folder: Path) -> list[str]:
        """Return the command, which is typed in the folder of the data."""
        sweep = SWEEPS[self.sweep]
        words = [*sweep.more, *sweep.variants[self.variant], f"seed={self.seed}"]
        if sweep.recipe == "task-router":
            words += ["data.path=tasks", f"data.tasks={self.data}", f"model.name={sweep.model}"]
        elif sweep.recipe == "char-lm":
            words += [f"data.path={self.data}.txt"]
        else:
            words += [f"data.path={self.data}-train.jsonl", f"model.name={sweep.model}"]
            words += [f"data.valid_path={self.data}-valid.jsonl"]
        return ["train", sweep.recipe, *words, "--out", str(self.out(folder))]

    def out(self, folder: Path) -> Path:
        """Return the run's folder."""
        return folder / f"{self.sweep}-{self.variant}-{self.data}-{self.seed}"


@dataclass(slots=True)
class Hands:
    """Trains several runs at a time, each on a core of its own."""

    folder: Path
    cores: SimpleQueue[int] = field(default_factory=SimpleQueue)

    def made(self, run: Run) -> list[dict[str, float]]:
        """Train, unless the folder has it; return the validations.

        Raises RuntimeError if the command fails.
        """
        if (run.out(self.folder) / "run.json").is_file():
            return self._validations(run)
        core = self.cores.get()
        command = [sys.executable, "-m", "hotloop", *run.command(self.folder)]
        print("$", " ".join(command[2:]), flush=True)
        try:
            done = subprocess.run(
                ["taskset", "-c", str(core), *command],
                cwd=self.folder,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            self.cores.put(core)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
        return self._validations(run)

    def _validations(self, run: Run) -> list[dict[str, float]]:
        """Return a run's validations. Raises RuntimeError if it is not complete."""
        out = run.out(self.folder)
        if json.loads((out / "run.json").read_text())["status"] != "complete":
            raise RuntimeError(f"{out} is not complete: remove it to train again")
        return [
            {key: value for key, value in point.items() if key != "seconds"}
            for point in curve_of(out)
        ]

    def all_made(self, runs: Iterable[Run]) -> list[dict[str, Any]]:
        """Train all of some runs."""
        some = list(runs)
        with ThreadPoolExecutor(self.cores.qsize()) as pool:
            curves = list(pool.map(self.made, some))
        return [
            {"variant": run.variant, "set": run.data, "seed": run.seed, "curve": curve}
            for run, curve in zip(some, curves, strict=True)
        ]


def furnish(folder: Path, data: Path) -> None:
    """Put the rows and the models into a folder, but for those that it has."""
    with (data / "text2cypher/text2cypher_gpt4turbo.csv").open(newline="") as file:
        cypher = list(csv.DictReader(file))
    sets: dict[str, Iterable[Any]] = {
        "polarity": _lines(data / "sentence_polarity/all.jsonl"),
        "snli": _lines(data / "snli/dev.jsonl"),
        "databases": [{"text": row["question"], "label": row["database"]} for row in cypher],
        "sql": _lines(data / "text2sql_advising/pairs.jsonl"),
        "instruct": _lines(data / "self_instruct_seed/seed_tasks.jsonl"),
        "cypher": [{"instruction": row["question"], "output": row["cypher"]} for row in cypher],
    }
    for name, (train, held) in ROWS.items():
        some = list(sets[name.removeprefix("few-")])
        random.Random(0).shuffle(some)
        _write(folder / f"{name}-train.jsonl", some[:train])
        _write(folder / f"{name}-valid.jsonl", some[-held:])
    links = {
        "minilm": minilm(),
        "tasks": data,
        "shakespeare.txt": data / "tinyshakespeare/input.txt",
        "wiki.txt": data / "wikitext2/valid.txt",
    }
    for name, target in links.items():
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(target)
    (folder / "queries.txt").write_text("\n\n".join(row["cypher"] for row in cypher))
    answers = [folder / f"{name}-train.jsonl" for name in ("sql", "instruct", "cypher")]
    if not (folder / "base").exists():
        plain_decoder(folder, data / "wikitext2", answers)


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _write(path: Path, rows: Iterable[Any]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def main(argv: Sequence[str] | None = None) -> int:
    """Make the trainings that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("names", nargs="*", metavar="SWEEP")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="a folder for the runs")
    options = parser.parse_intermixed_args(argv)
    if unknown := [name for name in options.names if name not in SWEEPS]:
        parser.error(f"no sweep is called {', '.join(unknown)}; there are {', '.join(SWEEPS)}")
    folder = (options.keep or Path(tempfile.mkdtemp(prefix="hotloop-defaults-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    furnish(folder, options.data.resolve())
    hands = Hands(folder)
    for core in sorted(os.sched_getaffinity(0)):
        hands.cores.put(core)
    found = json.loads(PAGE.read_text())["sweeps"] if PAGE.is_file() else {}
    for name in options.names or SWEEPS:
        found[name] = swept(name, hands)
        write_json(PAGE, {"sweeps": found})
    print(f"the runs are in {folder}")
    return 0


def swept(name: str, hands: Hands) -> dict[str, Any]:
    """Return what a sweep came to: its trainings and the value that is chosen."""
    sweep = SWEEPS[name]
    chosen, trainings = (ended_early if sweep.is_of_patience else compared)(name, hands)
    return {
        "cpu": detect().name,
        "recipe": sweep.recipe,
        "score": sweep.score,
        "more_is_better": sweep.is_more_better,
        "settings": sweep.more,
        "variants": sweep.variants,
        "was": sweep.was,
        "best": chosen,
        "now": sweep.now,
        "sets": sweep.sets,
        "check": sweep.check,
        "trainings": trainings,
    }


def compared(name: str, hands: Hands) -> tuple[str | None, list[dict[str, Any]]]:
    """Return the value that is best on the first two sets, and the trainings on all three."""
    sweep = SWEEPS[name]
    first = hands.all_made(
        Run(name, *one) for one in product(sweep.variants, sweep.sets, range(1, sweep.seeds + 1))
    )
    means = {
        label: mean(one["curve"][-1][sweep.score] for one in first if one["variant"] == label)
        for label in sweep.variants
    }
    chosen = (max if sweep.is_more_better else min)(means, key=means.__getitem__)
    print(name, means, flush=True)
    checked = dict.fromkeys((sweep.was, chosen, sweep.now))
    if len(sweep.variants) == 2:
        checked = dict.fromkeys(sweep.variants)
    check = hands.all_made(
        Run(name, *one) for one in product(checked, [sweep.check], range(1, CHECK_SEEDS + 1))
    )
    return chosen, [*first, *check]


def ended_early(name: str, hands: Hands) -> tuple[str | None, list[dict[str, Any]]]:
    """Return the trainings that each patience would have made, and no best: none gains a score."""
    sweep = SWEEPS[name]
    unended = next(label for label, words in sweep.variants.items() if _number(words) is None)
    whole = hands.all_made(
        Run(name, unended, data, seed)
        for data in (*sweep.sets, sweep.check)
        for seed in range(1, 1 + (CHECK_SEEDS if data == sweep.check else sweep.seeds))
    )
    return None, [
        {**one, "variant": label, **stopped(one["curve"], _number(words), sweep)}
        for label, words in sweep.variants.items()
        for one in whole
    ]


def _number(words: Sequence[str]) -> int | None:
    found: int | None = json.loads(words[0].partition("=")[2])
    return found


def stopped(
    curve: Sequence[dict[str, float]], patience: int | None, sweep: Sweep
) -> dict[str, Any]:
    """Return a curve up to the validation at which a patience ends it, and its best score by then.

    As the engine does, it ends after so many validations in a row that are no better than the best.
    The scores are finite.
    """
    sign = 1 if sweep.is_more_better else -1
    best, stale, made = float("-inf"), 0, []
    for point in curve:
        made.append(point)
        now = sign * point[sweep.score]
        stale = 0 if now > best else stale + 1
        best = max(best, now)
        if patience is not None and stale >= patience:
            break
    return {
        "curve": made,
        "best_score": sign * best,
        "share_of_steps": made[-1]["step"] / curve[-1]["step"],
    }


if __name__ == "__main__":
    sys.exit(main())
