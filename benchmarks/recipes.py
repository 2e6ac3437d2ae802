"""U1: the recipes on text against Hugging Face's Trainer and TRL, and what each technique gives.

python -m benchmarks.recipes [CASE] [--rounds N] [--only TEXT] [--busy] [--quick]

CASE is classifier-long, classifier-short, either with -dropout, chat or expert; without one, all of
them. Weights are random, of the same files; rows, optimizer, rate, precision and global batch are
equal, and so must be the loss of 16 held-out rows before training, and closely after the same
steps. Each contestant has a process and two threads of its own, and sleeps while it is not its
turn. It cuts its own batches, so laps have different rows: samples/s are tokens/s by the mean
length of all rows. In the rows below a contestant's own choice one thing is changed. The first row
is no training: it makes the products of the linear layers and nothing else.
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file

from benchmarks import recipe_loops
from benchmarks.measure import Bench, Goal, interleave, options
from benchmarks.recipe_contestant import Contestant, Given, serve
from benchmarks.recipe_data import Lengths, Sizes, Texts, rows_of, written
from benchmarks.recipe_loops import hotloop
from benchmarks.turns import Elsewhere
from hotloop.core.plan import Plan
from hotloop.machine.detect import detect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.turns import Reading

SAMPLES, TOKENS, PADDING = "samples/s", "tokens/s", "padding %"
THREADS, WARM = 2, 2
SAME, SAME_BF16, CLOSE = 1e-4, 2e-3, 0.05  # nats before training; of that loss, after the steps
PADDED, DYNAMIC, BEST = "HF Trainer, padded to {}", "HF Trainer, dynamic", "HF Trainer, by length"
TRL, TRL_FREE, TRL_PACKED = "TRL, its defaults", "TRL, padding-free", "TRL, packed"
OWN = "hotloop, its own choice"
FLOOR = "the products with weights alone"
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A contestant: how it trains, and how many steps make a lap."""

    run: Callable[[Contestant], None]
    trains: bool = True
    steps: int = 2  # 1 where a step takes long; 48 in all are a mega-batch of HF's sampler, nearly


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A recipe on rows of some lengths."""

    title: str
    recipe: str
    texts: Texts
    sizes: Sizes
    settings: tuple[str, ...]  # of hotloop
    batch: int  # rows of an optimizer step
    rows: Mapping[str, Row]
    goals: Sequence[Goal]

    def tiny(self) -> Case:
        """Return it with sizes at which it only shows that it runs."""
        short = replace(self.texts.lengths, median=16, high=32, low=8)
        sizes = Sizes(width=32, layers=1, heads=2, vocabulary=1024, positions=1024)
        texts = replace(self.texts, lengths=short, rows=64)
        rows = {name: self.rows[name] for name in (BEST, OWN)}
        return replace(self, texts=texts, sizes=sizes, rows=rows, batch=8)

    def given(self, folder: Path) -> Given:
        """Return what every contestant has."""
        return Given(
            folder=folder,
            recipe=self.recipe,
            settings=self.settings,
            batch=self.batch,
            longest=self.texts.lengths.high,
            is_bf16=detect("cpu").why_no_bf16() is None,
            adapts="adapter.method=lora" in self.settings,
        )


def ours(*settings: str, steps: int = 2, **how: Any) -> Row:
    """Return a row of hotloop."""
    return Row(run=lambda here: hotloop(here, *settings, **how), steps=steps)


SPLIT = {
    f"hotloop, micro batches a step: {n}": ours(f"training.accumulation={n}") for n in (1, 2, 4)
}


def theirs(loop: Callable[..., None], *, steps: int = 2, trains: bool = True, **how: Any) -> Row:
    """Return a row of a peer."""
    return Row(run=functools.partial(loop, **how), steps=steps, trains=trains)


def products() -> Row:
    """Return the row that no training can be faster than, as long as products are made by torch."""
    return theirs(recipe_loops.products, trains=False)


def goal(other: str, limit: float, *, row: str = OWN) -> Goal:
    """Return that a row is so many times as fast as another."""
    return Goal(
        text=f"{row}: at least {limit:g}x {other}",
        row=row,
        quantity=SAMPLES,
        against=other,
        bound="at least",
        limit=limit,
        judged="interval",  # laps have different rows: that is not the machine's spread
    )


def classifiers(pad_to: int, batch: int) -> dict[str, Row]:
    """Return the rows of a classifier."""
    trainer = functools.partial(theirs, recipe_loops.trainer)
    return {
        FLOOR: products(),
        PADDED.format(pad_to): trainer(pad_to=pad_to, steps=1),
        DYNAMIC: trainer(steps=1),
        BEST: trainer(train_sampling_strategy="group_by_length"),
        OWN: ours(),
        "hotloop, without padding": ours("data.layout=flat"),
        "hotloop, rows in any order": ours("data.group_by_length=false"),
        **SPLIT,
        "hotloop, no techniques": ours(plan=Plan(micro_batch=batch)),
    }


def answers(batch: int, packed: int) -> dict[str, Row]:
    """Return the peers' rows of a language model; `packed` rows have as many tokens as a batch."""
    trainer = functools.partial(theirs, recipe_loops.trainer)
    trl = functools.partial(theirs, recipe_loops.trl, steps=1)
    best: dict[str, Any] = {"gradient_checkpointing": False}
    return {
        FLOOR: products(),
        DYNAMIC: trainer(steps=1),
        BEST: trainer(train_sampling_strategy="group_by_length"),
        TRL: trl(),
        TRL_FREE: trl(padding_free=True, max_length=None, **best),
        TRL_PACKED: trl(packing=True, per_device_train_batch_size=packed, **best),
    }


BERT = Sizes(width=384, layers=6, heads=12, vocabulary=30_522, positions=512)  # MiniLM-L6
# A head of 31 % of the weights: Qwen3-0.6B has 26 % with its 151,936 ids.
QWEN = Sizes(width=256, layers=6, heads=4, vocabulary=8_192, positions=1024)
# XQuAD's 1,190 English pairs, questions and paragraphs of SQuAD, in MiniLM's tokens: mean 181,
# 5 % below 91, median 164, 5 % above 300, longest 637 (2026-11). These: 181, 96, 170, 303, 512.
SQUAD = Lengths(median=170, sigma=0.35, low=90, high=512)
SST = Lengths(median=22, sigma=0.45, low=5, high=66)
# 8 texts have the tokens of two packed rows of 1,024, on average.
CHAT = Lengths(median=180, sigma=0.9, low=24, high=1024)
PACKED = ("data.packing=true", "training.batch_size=2")
LORA = (
    "adapter.method=lora",
    f"adapter.rank={recipe_loops.RANK}",
    f"adapter.alpha={recipe_loops.ALPHA}",
)
PLAIN = Plan(micro_batch=8)
CASES = {
    "classifier-long": Case(
        title="U1 classifier 6 x 384 of two texts, SQuAD-like lengths, batch 8",
        recipe="pair-classifier",
        texts=Texts(kind="pair", lengths=SQUAD, rows=1600),
        sizes=BERT,
        settings=(),
        batch=8,
        rows=classifiers(512, 8),
        goals=[goal(PADDED.format(512), 3.5), goal(DYNAMIC, 2.4), goal(BEST, 1.5)],
    ),
    "classifier-short": Case(
        title="U1 classifier 6 x 384 of one text, SST-2-like lengths, batch 32",
        recipe="pair-classifier",
        texts=Texts(kind="text", lengths=SST, rows=6400),
        sizes=BERT,
        settings=(),
        batch=32,
        rows=classifiers(128, 32),  # run_glue.py's own max_seq_length
        goals=[
            goal(PADDED.format(128), 4.0),
            goal(BEST, 1.5),
            Goal(
                text=f"{OWN}: at least 28 samples/s (said of another machine)",
                row=OWN,
                quantity=SAMPLES,
                bound="at least",
                limit=28,
                judged="interval",
            ),
        ],
    ),
    "chat": Case(
        title="U1 chat-sft by length, all weights of a Qwen3 6 x 256, loss on answers, batch 8",
        recipe="chat-sft",
        texts=Texts(kind="prompt", lengths=CHAT, rows=1600),
        sizes=QWEN,
        settings=("adapter.method=none", "data.group_by_length=true"),
        batch=8,
        rows={
            **answers(8, packed=2),
            OWN: ours(),
            "hotloop, without padding": ours("data.layout=flat"),
            "hotloop, rows in any order": ours("data.group_by_length=false", steps=1),
            "hotloop, packed": ours(*PACKED, steps=1),
            **SPLIT,
            "hotloop, logits of all tokens": ours(all_logits=True),
            "hotloop, no techniques": ours(plan=PLAIN),
        },
        goals=[goal(DYNAMIC, 4.0), goal(BEST, 1.5), goal(TRL, 4.0), goal(TRL_FREE, 1.5)],
    ),
    "expert": Case(
        title="U1 expert-sft, LoRA 16 on a Qwen3 6 x 256, loss on answers, batch 8",
        recipe="expert-sft",
        texts=Texts(kind="prompt", lengths=CHAT, rows=1600),
        sizes=QWEN,
        settings=(*LORA, "data.packing=false", "data.group_by_length=true"),
        batch=8,
        rows={
            **answers(8, packed=2),
            OWN: ours(*PACKED, "data.group_by_length=false", steps=1),
            "hotloop, by length, not packed": ours(),
            **SPLIT,
            "hotloop, logits of all tokens": ours(
                *PACKED, "data.group_by_length=false", steps=1, all_logits=True
            ),
            "hotloop, no techniques": ours(
                *PACKED, "data.group_by_length=false", steps=1, plan=Plan(micro_batch=2)
            ),
        },
        goals=[goal(DYNAMIC, 4.0), goal(BEST, 1.5), goal(TRL, 4.0), goal(TRL_PACKED, 1.5)],
    ),
}


def with_dropout(name: str) -> Case:
    """Return a classifier's case with the dropout of MiniLM's configuration.

    torch's attention on the CPU is another kernel then (docs/log.md, the twelfth wave).
    """
    case = CASES[name]
    return replace(
        case,
        title=case.title.replace("6 x 384", "6 x 384 with dropout 0.1"),
        sizes=replace(case.sizes, dropout=0.1),
        rows={row: case.rows[row] for row in (BEST, OWN)},
        goals=[goal(BEST, 1.5)],
    )


CASES |= {f"{name}-dropout": with_dropout(name) for name in ("classifier-long", "classifier-short")}


def prepare(case: Case, folder: Path) -> float:
    """Write model, rows and the peers' tokens into a folder; return the mean tokens of a row."""
    written(folder, case.texts, case.sizes)
    parts = case.given(folder).assembly()
    for name, samples in (("train", parts.job.train), ("valid", parts.job.valid)):
        (folder / f"{name}.json").write_text(json.dumps(rows_of(samples)))  # type: ignore[arg-type]
    if case.recipe == "pair-classifier":
        torch.manual_seed(parts.job.seed)  # as the engine does before it builds the model
        head = parts.job.model().head
        save_file(head.state_dict(), folder / "head.safetensors")  # type: ignore[union-attr]
    lengths = parts.job.train.lengths[parts.job.train.chosen]  # type: ignore[attr-defined]
    return float(lengths.mean())


class Away(Elsewhere):
    """A contestant in a process of its own."""

    def about(self) -> dict[str, float | None]:
        """Return what it says of itself."""
        found: dict[str, float | None] = self._ask("about")
        return found


def contestant(case: Case, folder: Path, name: str) -> Contestant:
    """Return a row, not yet started."""
    row = case.rows[name]
    return Contestant(given=case.given(folder), run=row.run, block=row.steps)


def here(case: Case, folder: Path, name: str) -> Contestant:
    """Return a row that runs in this process."""
    made = contestant(case, folder, name)
    made.start()
    return made


def away(case: str, folder: Path, name: str) -> Away:
    """Return a row that runs in its own process."""
    command = [sys.executable, "-m", "benchmarks.recipes", "--child", case, str(folder), name]
    return Away(command, threads=THREADS)


class Lap:
    """Takes a row's laps, and its loss once it has made as many steps as the others will."""

    def __init__(self, entry: Any, row: Row, *, mean: float, check: int) -> None:
        self.entry, self.mean, self.check = entry, mean, check
        self.block = self.steps = row.steps  # a lap is made at the start
        self.loss: float | None = None

    def __call__(self) -> Reading:
        """Make a lap."""
        found = self.entry.lap()
        self.steps += self.block
        if self.steps == self.check:
            self.loss = self.entry.loss()
        rate = found["tokens"] / found["s"]
        padding = 100 * (1 - found["tokens"] / found["slots"])
        return {SAMPLES: rate / self.mean, TOKENS: rate, PADDING: padding}


def compared(
    laps: Mapping[str, Lap], about: Mapping[str, Any], same_within: float = SAME
) -> list[str]:
    """Return a sentence on each row's held-out loss against the first row's."""
    if not laps:
        return []
    first = next(iter(laps))
    said = []
    for name, lap in laps.items():
        begins, after = about[name]["loss"], lap.loss
        same = abs(begins - about[first]["loss"]) < same_within
        text = f"{begins:.5f} before training, {'the same' if same else 'DIFFERS'}"
        if after is not None and (other := laps[first].loss) is not None:
            close = abs(after - other) < CLOSE * begins
            word = "close" if close else "DIFFERS"
            text += f"; {after:.4f} after {lap.check} steps, {word}"
        said.append(f"held-out loss, {name}: {text}")
    return said


def took(about: Mapping[str, Any]) -> list[str]:
    """Return a sentence on the memory of each row."""
    said = []
    for name, found in about.items():
        peak, forecast = found["peak"], found["forecast"]
        if peak is None:
            continue
        text = f"peak memory above that before the model was built, {name}: {peak / MIB:,.0f} MiB"
        if forecast is not None:
            text += f", forecast {forecast / MIB:,.0f} ({forecast / peak - 1:+.0%})"
        said.append(text)
    return said


def race(name: str, argv: Sequence[str]) -> None:
    """Race the rows of a case."""
    chosen = options(argv, __doc__ or "")
    case = CASES[name].tiny() if chosen.quick else CASES[name]
    if not chosen.quick:
        torch.set_num_threads(THREADS)
    bench = Bench(
        name=f"recipes-{name}",
        title=case.title,
        options=chosen,
        base=BEST,
        quantities=(SAMPLES, TOKENS, PADDING),
        goals=list(case.goals),
    )
    with tempfile.TemporaryDirectory() as folder:
        mean = prepare(case, Path(folder))
        bench.begin()
        make: Callable[[str], Any] = functools.partial(away, name, Path(folder))
        if chosen.quick:
            make = functools.partial(here, case, Path(folder))
        entries = bench.gather({row: functools.partial(make, row) for row in case.rows})
        check = (chosen.rounds + WARM + 1) // 2 * 2  # steps that every row makes
        laps = {
            row: Lap(entry, case.rows[row], mean=mean, check=check)
            for row, entry in entries.items()
        }
        readings = interleave(laps, rounds=chosen.rounds, warm=WARM)
        about = {row: entry.about() for row, entry in entries.items()}
        for entry in entries.values():
            entry.stop()
    is_bf16 = case.given(Path()).is_bf16
    precision = "bf16" if is_bf16 else "fp32"
    bench.notes.append(f"{precision}; {case.texts.rows:,} rows of {mean:.0f} tokens on average")
    trained = {row: lap for row, lap in laps.items() if case.rows[row].trains}
    bench.notes += compared(trained, about, SAME_BF16 if is_bf16 else SAME)
    if not chosen.quick:
        bench.notes += took({row: about[row] for row in trained})
    bench.conclude(readings)


def main(argv: Sequence[str] | None = None) -> None:
    """Race the rows of one case, or of all."""
    words = list(sys.argv[1:] if argv is None else argv)
    warnings.simplefilter("ignore")  # of the peers
    names = list(CASES)
    if words and not words[0].startswith("-"):
        names = [words.pop(0)]
        if names[0] not in CASES:
            sys.exit(f"no case is called {names[0]!r}: {', '.join(CASES)}")
    for name in names:
        race(name, words)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _, _, of, where, which = sys.argv
        serve(contestant(CASES[of], Path(where), which))
    else:
        main()
