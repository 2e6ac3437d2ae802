"""Ladders on a GPU: `hotloop bench` from a plain loop up to hotloop's own choice, by turns.

    python -m benchmarks.gpu.ladders --json FILE CASE ... [--short]

Each rung takes turns with the plain loop, so the plain loop is read anew beside each. Then the
recipe is trained for some steps, and its waits a step and its memory are counted. FILE is written
anew after each ladder; the ladder's own result, which is written after each rung, lies beside it as
CASE-ladder.json.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.commands import ENDS_S, run
from benchmarks.gpu.part import Deadline, Writer, options
from benchmarks.gpu.shapes import SHAPES, made

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ROUNDS, SHORT_ROUNDS = 6, 1
COUNTED_S = 30.0  # for the steps whose waits are counted, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A ladder: a recipe, the shape of its model and its rows (None: made by the recipe)."""

    recipe: str
    shape: str | None = None
    rows: str | None = None
    settings: Sequence[str] = ()
    short: Sequence[str] = ()  # settings of a rehearsal, in place of those
    rungs: str  # few: each is a race of two processes, and the last is the one that counts
    rehearsed: str = "own"

    def words(self, *, short: bool) -> list[str]:
        """Return the recipe and its settings, as they are typed."""
        both = [*self.settings, *(self.short if short else ())]
        settings = {word.partition("=")[0]: word for word in both}  # the later one counts
        words = [self.recipe, *settings.values()]
        if self.shape is None or self.rows is None:
            return words
        folder = made(self.shape, self.rows, short=short)
        words.append(f"model.name={folder / 'model'}")
        if self.rows == "tasks":
            files = json.dumps({"translation": str(folder / "tasks" / "translation.jsonl")})
            return [*words, f"data.path={folder / 'tasks'}", f"data.files={files}"]
        words.append(f"data.path={folder / 'train.jsonl'}")
        return [*words, f"data.valid_path={folder / 'valid.jsonl'}"]


# inductor takes minutes on a slow host, for a few kernels; the rest of a rung is what it is.
_EAGER = "training.use_compile=false"
_TINY = (
    *("model.layers=2", "model.heads=2", "model.width=32", "model.context=32"),
    *("training.batch_size=8", "data.max_chars=20000", _EAGER),
)
_FEW = ("training.batch_size=4", "data.max_length=64", _EAGER)
_EACH = "engine,micro-batch,sdpa,products,low,fused,lean,graphs,compile"
_NO_DROPOUT = ("preset=h100", "model.dropout=0")
_PAIRS = ("training.batch_size=64", "training.accumulation=1")
_CHATS = ("data.max_length=2048", "training.batch_size=16")
CASES = {
    "char-lm": Case(
        recipe="char-lm",
        settings=_NO_DROPOUT,
        short=_TINY,
        rungs="own,hand,hand-compiled",
    ),
    # What each technique adds.
    "char-lm-rungs": Case(
        recipe="char-lm",
        settings=_NO_DROPOUT,
        short=_TINY,
        rungs=_EACH,
        rehearsed="engine,graphs",
    ),
    # The body of GPT-2 124M; no recipe has its vocabulary.
    "gpt2-body": Case(
        recipe="char-lm",
        settings=(
            *("model.layers=12", "model.heads=12", "model.width=768", "model.context=1024"),
            *("model.dropout=0", "training.batch_size=32", "training.accumulation=1"),
        ),
        short=_TINY,
        rungs="own,hand",
    ),
    # So small that the host limits: what is left is the price of the loop itself.
    "launch-bound": Case(
        recipe="char-lm",
        settings=(
            *("model.layers=8", "model.heads=4", "model.width=256", "model.context=64"),
            *("model.dropout=0", "training.batch_size=16", "training.accumulation=1"),
        ),
        short=_TINY,
        rungs="own,hand",
    ),
    "minilm-short": Case(
        recipe="pair-classifier",
        shape="minilm",
        rows="short pairs",
        settings=(*_PAIRS, "data.max_length=64"),
        short=_FEW,
        rungs="longest,own",
    ),
    "minilm-long": Case(
        recipe="pair-classifier",
        shape="minilm",
        rows="long pairs",
        settings=(*_PAIRS, "data.max_length=512"),
        short=_FEW,
        rungs="longest,own",
    ),
    "qwen3-lora": Case(
        recipe="expert-sft",
        shape="qwen3",
        rows="prompts",
        settings=(*_CHATS, "data.packing=true"),
        short=_FEW,
        rungs="longest,own",
    ),
    "qwen3-dora": Case(
        recipe="expert-sft",
        shape="qwen3",
        rows="prompts",
        settings=(*_CHATS, "data.packing=true", "adapter.method=dora"),
        short=_FEW,
        rungs="own",
    ),
    "qwen3-full": Case(
        recipe="chat-sft",
        shape="qwen3",
        rows="prompts",
        settings=(*_CHATS, "adapter.method=none"),
        short=_FEW,
        rungs="longest,own",
    ),
    "gemma3-pairs": Case(
        recipe="pair-classifier",
        shape="gemma3",
        rows="short pairs",
        settings=(*_PAIRS, "data.max_length=64", "adapter.method=lora"),
        short=_FEW,
        rungs="longest,own",
    ),
    "router": Case(
        recipe="task-router",
        shape="qwen3",
        rows="tasks",
        settings=("training.batch_size=16", "phase=1"),
        short=("training.batch_size=4", _EAGER),
        rungs="together,own",
    ),
}


def climb(
    name: str, case: Case, words: Sequence[str], out: Path, *, limit_s: float, short: bool
) -> dict[str, Any]:
    """Climb a ladder; return its result, and why it is not complete where it is not."""
    command = [sys.executable, "-m", "hotloop", "bench", "-q", *words, "--no-epochs"]
    command += ["--rungs", case.rehearsed if short else case.rungs]
    command += ["--rounds", str(SHORT_ROUNDS if short else ROUNDS), "--json", str(out)]
    why = run(command, limit_s).failed
    found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"rows": []}
    bad = [row["id"] for row in found["rows"] if row["state"] in ("failed", "impossible")]
    for row in found["rows"]:
        speed = row["figures"].get("tokens_per_s")
        told = row["why"] if speed is None else f"{speed:,.0f} tokens/s"
        mfu = row["figures"].get("mfu")
        extra = "" if mfu is None else f", MFU {mfu:.1%}"
        print(f"  {name:<14}{row['name']:<30}{told}{extra}", flush=True)
    failed = why or (f"rungs that failed: {', '.join(bad)}" if bad else None)
    return {**found, "linear": _linear(case, found, short=short), "failed": failed}


def count(
    name: str, words: Sequence[str], out: Path, *, limit_s: float, short: bool
) -> dict[str, Any]:
    """Train for some steps; return the waits a step and the memory, or what failed."""
    command = [sys.executable, "-m", "benchmarks.gpu.steps", "--json", str(out)]
    why = run([*command, *(["--short"] if short else []), "--", *words], limit_s).failed
    if not out.exists():
        return {"failed": why}
    found: dict[str, Any] = json.loads(out.read_text())
    waits, memory = found.get("waits"), found.get("memory")
    print(f"  {name:<14}waits a step {waits and waits['a step']}, memory {memory}", flush=True)
    return {**found, "failed": why}


def _linear(case: Case, found: Mapping[str, Any], *, short: bool) -> dict[str, float]:
    """Return the FLOP/s of the linear layers of each rung, where rows differ in length.

    A product of a weight with a token is 2 FLOP; forward, and back to inputs and, where the weights
    are trained, to weights. Attention, head and adapters are left out: it is a lower bound.
    """
    if case.shape is None or short:
        return {}
    n = SHAPES[case.shape].numbers
    width, heads = n["hidden_size"], n["num_attention_heads"]
    head = n.get("head_dim", width // heads)
    attention = 2 * width * head * (heads + n.get("num_key_value_heads", heads))
    mlp = (2 if case.shape == "minilm" else 3) * width * n["intermediate_size"]
    weights = n["num_hidden_layers"] * (attention + mlp)
    method = found.get("settings", {}).get("adapter.method", "none")
    passes = 3 if method == "none" else 2
    rates = {row["id"]: row["figures"].get("tokens_per_s") for row in found["rows"]}
    return {id: 2 * passes * weights * rate for id, rate in rates.items() if rate is not None}


def main() -> int:
    """Climb, count, and write; 1 if something did not end well."""
    chosen = options(__doc__, cases=f"of {', '.join(CASES)}")
    out, failed, deadline = Writer(chosen.json), False, Deadline(chosen.seconds)
    names = chosen.cases or [*CASES]
    for at, name in enumerate(names):
        case, beside, short = CASES[name], chosen.json.parent, chosen.short
        words = case.words(short=short)
        share = deadline.left() / (len(names) - at)
        until = deadline.left() - share
        most = share if short else min(COUNTED_S, share)
        steps = count(name, words, beside / f"{name}-steps.json", limit_s=most, short=short)
        out.put(name, {"steps": steps})  # what takes longer may be stopped
        left, file = deadline.left() - until - ENDS_S, beside / f"{name}-ladder.json"
        ladder = climb(name, case, words, file, limit_s=max(0.0, left), short=short)
        out.put(name, {"steps": steps, "ladder": ladder})
        for part in (steps, ladder):
            if part["failed"]:
                failed = True
                print(f"  {name}: {part['failed']}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
