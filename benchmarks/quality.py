"""Whole trainings beside a peer: the same data, model, budget of rows and settings, three seeds.

python -m benchmarks.quality DATA [ROW ...] [--nanogpt FOLDER] [--sedd FOLDER] [--seeds N]
                             [--keep FOLDER]

DATA holds the folders sentence_polarity, snli, self_instruct_seed, text2cypher, text2sql_advising,
wikitext2, tinyshakespeare, xquad, scitldr, mbpp and tico19; `--nanogpt FOLDER` is a checkout of
karpathy/nanoGPT and `--sedd FOLDER` one of louaaron/Score-Entropy-Discrete-Diffusion, without
which their rows are left out. Peers: Hugging Face's Trainer with rows of like length together and
PEFT's adapters; TRL's SFTTrainer with rows in random order (for task-router, one training for each
task); nanoGPT's train.py; the authors' code of score entropy. Both sides train in bf16 on the CPU
(the last two in float32) and validate at the same steps on the same rows. hotloop's
other settings are its defaults, but experts are not packed, as the peer's. Seconds are those of
training, without validations, saves and the start. Results go to benchmarks/results/quality.json,
and to docs/quality.md by docs/quality.py.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from benchmarks import quality_nanogpt
from benchmarks.measure import Load
from benchmarks.plain_decoder import plain_decoder
from benchmarks.table import RESULTS
from benchmarks.text_runs import ended, minilm
from hotloop.core.storage.files import write_json
from hotloop.machine.detect import detect

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = RESULTS / "quality.json"
MARKS = 4  # validations of a training, and one more if it does not divide the steps
TRAINER = "HF Trainer, by length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A training that both sides make."""

    recipe: str
    data: str  # name of the set
    rows: int | None  # of training; None: all
    held: int
    peer: str
    score: str  # by which it is judged
    model: str
    batch: int
    epochs: int
    rate: float
    schedule: str = "linear"
    warmup: float = 0.06
    decay: float = 0.01
    adapter: str = "none"
    rank: int = 16
    longest: int = 128
    more: tuple[str, ...] = ()  # further settings of hotloop
    is_more_better: bool = True
    is_same_model: bool = True
    attention: str = "sdpa"  # of the peer; eager takes it 0.9 to 1.0 of the time (docs/log.md)
    peer_by_length: bool = False

    def settings(self, folder: Path, seed: int) -> list[str]:
        """Return hotloop's settings."""
        if self.recipe == "char-lm":
            return [f"data.path={folder / self.data}.txt", f"seed={seed}", *self.more]
        if self.recipe == "task-router":
            return [
                f"model.name={folder / self.model}",
                f"data.path={folder / self.data}",
                f"data.max_length={self.longest}",
                f"training.epochs={self.epochs}",
                f"training.batch_size={self.batch}",
                f"training.learning_rate={self.rate}",
                f"adapter.rank={self.rank}",
                f"adapter.alpha={2 * self.rank}",
                f"seed={seed}",
                *self.more,
            ]
        every = self.steps(folder) // MARKS
        usual = [
            f"model.name={folder / self.model}",
            f"data.path={folder / self.data}-train.jsonl",
            f"data.valid_path={folder / self.data}-valid.jsonl",
            f"data.max_length={self.longest}",
            f"training.epochs={self.epochs}",
            f"training.batch_size={self.batch}",
            f"training.learning_rate={self.rate}",
            f"training.schedule={self.schedule}",
            f"training.warmup_share={self.warmup}",
            f"training.weight_decay={self.decay}",
            "training.eval_every_epochs=null",
            f"training.eval_every_steps={every}",
            f"adapter.method={self.adapter}",
            f"seed={seed}",
        ]
        if self.adapter != "none":
            usual += [f"adapter.rank={self.rank}", f"adapter.alpha={2 * self.rank}"]
        return [*usual, *self.more]

    def steps(self, folder: Path) -> int:
        """Return the optimizer steps of a training."""
        lines = (folder / f"{self.data}-train.jsonl").read_text().count("\n")
        return self.epochs * math.ceil(lines / self.batch)

    def order(self, folder: Path, seed: int) -> dict[str, Any]:
        """Return what the peer is told."""
        same = ("recipe", "epochs", "rate", "schedule", "warmup", "decay", "adapter")
        found = {name: getattr(self, name) for name in same}
        kind = "trl" if self.peer.startswith("TRL") else "trainer"
        more = {"peer": kind, "model": str(folder / self.model), "rank": self.rank}
        more |= {"seed": seed, "attention": self.attention, "by_length": self.peer_by_length}
        # hotloop's batches mix the tasks: each adapter has as many rows a step as its own training.
        of_tasks = len(TASKS) if self.recipe == "task-router" else 1
        more |= {"marks": MARKS, "batch": self.batch // of_tasks}
        return {**found, **more, "settings": self.settings(folder, seed)}


CLASSIFIER: dict[str, Any] = {
    "recipe": "pair-classifier",
    "peer": TRAINER,
    "score": "macro_f1",
    "model": "minilm",
    "batch": 32,
    "epochs": 1,
    "rate": 1e-4,
    "held": 1000,
    "peer_by_length": True,
}
SFT: dict[str, Any] = {
    "peer": "TRL",
    "score": "loss",
    "is_more_better": False,
    "model": "base",
    "batch": 8,
    "longest": 512,
    "schedule": "cosine",
    "warmup": 0.03,
    "decay": 0.0,
}
TASKS = {
    "sentiment": "sentence_polarity/all.jsonl",
    "questions": "xquad/xquad.en.json",
    "summaries": "scitldr/train.jsonl",
    "code": "mbpp/mbpp.jsonl",
    "translation": "tico19/en-fr.jsonl",
}
NANOGPT = "nanoGPT's train.py"
SEDD = "the authors' SEDD"
NEEDED = {NANOGPT: "nanogpt", SEDD: "sedd"}  # peer -> option with its checkout
DENOISING = {
    "objective": "diffusion",
    "training.max_steps": 1600,
    "training.eval_every_steps": 1600 // MARKS,
    "training.batch_size": 16,
    "training.learning_rate": 1e-3,
    "training.min_learning_rate": 1e-4,
    "training.warmup_steps": 100,
    "training.weight_decay": 0.0,
    "model.layers": 4,
    "model.heads": 4,
    "model.width": 128,
    "model.context": 64,
    "model.dropout": 0.0,
}
SHAKESPEARE = {  # as the flags of quality_nanogpt and nanoGPT's configuration say
    "training.max_steps": quality_nanogpt.STEPS,
    "training.eval_every_steps": quality_nanogpt.STEPS // MARKS,
    "training.batch_size": 12,
    "training.learning_rate": 1e-3,
    "training.min_learning_rate": 1e-4,
    "training.warmup_steps": 100,
    "training.weight_decay": 0.1,
    "training.betas": "[0.9, 0.99]",
    "model.layers": 4,
    "model.heads": 4,
    "model.width": 128,
    "model.context": 64,
    "model.dropout": 0.0,
}
ROWS = {
    "shakespeare": Row(
        recipe="char-lm",
        data="shakespeare",
        rows=None,
        held=0,
        peer=NANOGPT,
        score="loss",
        is_more_better=False,
        is_same_model=False,
        model="",
        batch=12,
        epochs=1,
        rate=1e-3,
        more=tuple(f"{key}={value}" for key, value in SHAKESPEARE.items()),
    ),
    "denoising": Row(
        recipe="char-lm",
        data="shakespeare",
        rows=None,
        held=0,
        peer=SEDD,
        score="loss",
        is_more_better=False,
        is_same_model=False,
        model="",
        batch=16,
        epochs=1,
        rate=1e-3,
        more=tuple(f"{key}={value}" for key, value in DENOISING.items()),
    ),
    "polarity": Row(data="polarity", rows=4000, **CLASSIFIER),
    "snli": Row(data="snli", rows=4000, **CLASSIFIER),
    "polarity-lora": Row(
        data="polarity", rows=4000, **{**CLASSIFIER, "rate": 5e-4}, adapter="lora"
    ),
    "polarity-dora": Row(
        data="polarity", rows=4000, **{**CLASSIFIER, "rate": 5e-4}, adapter="dora"
    ),
    "chat": Row(recipe="chat-sft", data="instruct", rows=None, held=35, **SFT, epochs=6, rate=1e-3),
    "expert": Row(
        recipe="expert-sft",
        data="sql",
        rows=1000,
        held=300,
        **SFT,
        epochs=1,
        rate=2e-3,
        adapter="lora",
        more=("data.packing=false",),
    ),
    "cypher": Row(
        recipe="expert-sft",
        data="cypher",
        rows=1000,
        held=300,
        **SFT,
        epochs=1,
        rate=2e-3,
        adapter="lora",
        more=("data.packing=false",),
    ),
    "tasks": Row(
        recipe="task-router",
        data="tasks",
        rows=None,
        held=0,
        peer="TRL, one for each task",
        score="tasks",
        model="base",
        batch=8 * len(TASKS),
        epochs=MARKS,
        rate=2e-3,
        longest=256,
        schedule="linear",
        decay=0.0,
        adapter="lora",
        more=(
            "phase=1",
            "data.validation_share=0.25",
            *(f"data.{task}_size=150" for task in TASKS),
        ),
    ),
}


def furnish(folder: Path, data: Path, chosen: Sequence[str]) -> None:
    """Put rows and models into a folder."""
    (folder / "minilm").symlink_to(minilm())
    files = {
        "polarity": data / "sentence_polarity/all.jsonl",
        "snli": data / "snli/dev.jsonl",
        "instruct": data / "self_instruct_seed/seed_tasks.jsonl",
        "sql": data / "text2sql_advising/pairs.jsonl",
        "cypher": folder / "cypher.jsonl",
    }
    with (data / "text2cypher/text2cypher_gpt4turbo.csv").open(newline="") as file:
        rows = [{"question": r["question"], "answer": r["cypher"]} for r in csv.DictReader(file)]
    files["cypher"].write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "shakespeare.txt").symlink_to(data / "tinyshakespeare/input.txt")
    (folder / "tasks").symlink_to(data)
    for row in (ROWS[name] for name in chosen if ROWS[name].data in files):
        lines = files[row.data].read_text().splitlines()
        random.Random(0).shuffle(lines)
        count = row.rows or len(lines) - row.held
        for part, some in (("train", lines[:count]), ("valid", lines[-row.held :])):
            (folder / f"{row.data}-{part}.jsonl").write_text("".join(f"{x}\n" for x in some))
    if any(ROWS[name].model == "base" for name in chosen):
        answers = [files[name] for name in ("sql", "instruct", "cypher")]
        plain_decoder(folder, data / "wikitext2", [*answers, *(data / f for f in TASKS.values())])


def _typed(words: Sequence[str]) -> int:
    """Run hotloop; return its peak memory in MiB. Raises RuntimeError if it fails."""
    return _run([sys.executable, "-m", "hotloop", *words])


def _run(command: Sequence[str]) -> int:
    print("$", " ".join(command), flush=True)
    return ended(subprocess.Popen(command, stdout=subprocess.DEVNULL), " ".join(command)) >> 20


def ours(row: Row, folder: Path, seed: int, out: Path) -> dict[str, Any]:
    """Train with hotloop; return its curve."""
    words = ["train", row.recipe, *row.settings(folder, seed), "--out", str(out)]
    peak = _typed(words)
    return {"curve": curve_of(out), "peak_MiB": peak}


def curve_of(out: Path) -> list[dict[str, float]]:
    """Return a run's validations with the seconds of training before each.

    They count from the first step on, without validations and saves, which peers make none of.
    """
    began = 0.0
    spent, curve = 0.0, []
    for line in (out / "events-r0.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["kind"] == "session":
            began = event["t"]
        if event["kind"] in ("eval", "save"):
            spent += event["wall"]
        if event["kind"] == "eval":
            seconds = event["t"] - began - spent
            point = {"step": event["step"], "seconds": seconds, "loss": event["loss"]}
            curve.append({**point, **event.get("figures", {})})
    return curve


def theirs(row: Row, folder: Path, seed: int, name: str, checkout: Path | None) -> dict[str, Any]:
    """Train with the peer; return its curve."""
    order, result = folder / f"{name}-order.json", folder / f"{name}-peer.json"
    if row.peer == NANOGPT:
        words = ["quality_nanogpt", str(checkout), str(folder / "shakespeare.txt"), str(seed)]
    elif row.peer == SEDD:
        order.write_text(json.dumps({"settings": row.settings(folder, seed), "marks": MARKS}))
        words = ["quality_sedd", str(checkout), str(order)]
    else:
        order.write_text(json.dumps(row.order(folder, seed)))
        words = ["quality_peers", str(order)]
    _run([sys.executable, "-m", f"benchmarks.{words[0]}", *words[1:], str(result)])
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def seconds_to(curve: Sequence[dict[str, float]], score: str, goal: float, *, more: bool) -> Any:
    """Return the seconds after which a curve first is as good as a score, or None."""
    for point in curve:
        if point[score] >= goal if more else point[score] <= goal:
            return point["seconds"]
    return None


@dataclass(slots=True)
class Outcome:
    """What the seeds of a row came to."""

    row: Row
    ours: list[dict[str, Any]] = field(default_factory=list)
    peers: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return it with the figures of the table."""
        score, more = self.row.score, self.row.is_more_better
        last = [[one["curve"][-1][score] for one in side] for side in (self.ours, self.peers)]
        goal = mean(last[1])
        reached, first = (
            [seconds_to(one["curve"], score, goal, more=more) for one in side]
            for side in (self.ours, self.peers)
        )
        return {
            "recipe": self.row.recipe,
            "set": self.row.data,
            "adapter": self.row.adapter,
            "peer": self.row.peer,
            "score": score,
            "more_is_better": more,
            "hotloop": last[0],
            "peers": last[1],
            "hotloop_s": [one["curve"][-1]["seconds"] for one in self.ours],
            "peers_s": [one["curve"][-1]["seconds"] for one in self.peers],
            "seconds_to_peers_score": reached,
            "peers_seconds_to_it": first,
            "same_model": self.row.is_same_model,
            "hotloop_MiB": [one["peak_MiB"] for one in self.ours],
            "peers_MiB": [one["peak_MiB"] for one in self.peers],
            "curves": {
                "hotloop": [one["curve"] for one in self.ours],
                "peers": [one["curve"] for one in self.peers],
            },
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Make the trainings that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("names", nargs="*", metavar="ROW")
    for name in NEEDED.values():
        parser.add_argument(f"--{name}", type=Path, metavar="FOLDER", help="a checkout of it")
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="a new folder for the runs")
    options = parser.parse_intermixed_args(argv)
    checkouts = {peer: getattr(options, name) for peer, name in NEEDED.items()}
    lacking = [name for name, row in ROWS.items() if checkouts.get(row.peer, row) is None]
    names = options.names or [name for name in ROWS if name not in lacking]
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"no row is called {', '.join(unknown)}; there are {', '.join(ROWS)}")
    if missing := [name for name in names if name in lacking]:
        option = NEEDED[ROWS[missing[0]].peer]
        parser.error(f"{missing[0]} needs --{option} FOLDER, a checkout of its peer")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="hotloop-quality-"))
    folder.mkdir(parents=True, exist_ok=True)
    furnish(folder, options.data.resolve(), names)
    found = json.loads(PAGE.read_text())["rows"] if PAGE.is_file() else {}
    for name in names:
        outcome, load = Outcome(ROWS[name]), Load()
        for seed in range(1, options.seeds + 1):
            this = f"{name}-{seed}"
            outcome.peers.append(
                theirs(ROWS[name], folder, seed, this, checkouts.get(ROWS[name].peer))
            )
            outcome.ours.append(ours(ROWS[name], folder, seed, folder / this))
            print(json.dumps({k: v for k, v in outcome.to_json().items() if k != "curves"}))
        machine = detect()
        cpu = f"{machine.cores:g} cores, {machine.name}"
        found[name] = {**outcome.to_json(), "others": load.others(), "cpu": cpu}
        write_json(PAGE, {"rows": found})
    print(f"the runs are in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
