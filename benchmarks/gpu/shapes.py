"""Models of published shapes with random weights, and rows for them: nothing is downloaded.

The numbers of each shape are those of its config.json on the hub (2026-11).
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.recipe_data import SPECIALS, Lengths, Texts, tokenizer, write_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ROWS", "SHAPES", "Rows", "made"]

KEPT = Path(tempfile.gettempdir()) / "hotloop-gpu"  # a model of 0.6 B takes seconds to write


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A model: its classes in transformers, its own numbers, and which of them a rehearsal cuts."""

    config: str
    model: str
    numbers: Mapping[str, Any]
    short: Mapping[str, Any]

    def save(self, folder: Path, *, short: bool) -> int:
        """Write the model with weights from a seed; return its number of classes of tokens."""
        import torch
        import transformers

        numbers = {**self.numbers, **(self.short if short else {})}
        ids = {"pad_token_id": SPECIALS.index("[PAD]"), "eos_token_id": SPECIALS.index("</s>")}
        config = getattr(transformers, self.config)(**numbers, **ids, bos_token_id=None)
        torch.manual_seed(0)
        getattr(transformers, self.model)(config).save_pretrained(folder)
        return int(numbers["vocab_size"])


SHAPES = {
    # sentence-transformers/all-MiniLM-L6-v2, with dropout as its config has it
    "minilm": Shape(
        config="BertConfig",
        model="BertModel",
        numbers={
            "vocab_size": 30_522,
            "hidden_size": 384,
            "num_hidden_layers": 6,
            "num_attention_heads": 12,
            "intermediate_size": 1536,
            "max_position_embeddings": 512,
        },
        short={"vocab_size": 1024, "hidden_size": 32, "num_attention_heads": 2},
    ),
    # Qwen/Qwen3-0.6B: a head is 128 wide, not hidden_size / heads
    "qwen3": Shape(
        config="Qwen3Config",
        model="Qwen3ForCausalLM",
        numbers={
            "vocab_size": 151_936,
            "hidden_size": 1024,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "intermediate_size": 3072,
            "max_position_embeddings": 40_960,
            "tie_word_embeddings": True,
        },
        short={"vocab_size": 1024, "hidden_size": 64, "num_hidden_layers": 2, "head_dim": 16},
    ),
    # google/gemma-3-1b-pt: heads 256 wide, one of them for keys, windows of 512 in 5 layers of 6
    "gemma3": Shape(
        config="Gemma3TextConfig",
        model="Gemma3TextModel",
        numbers={
            "vocab_size": 262_144,
            "hidden_size": 1152,
            "num_hidden_layers": 26,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "head_dim": 256,
            "intermediate_size": 6912,
            "max_position_embeddings": 32_768,
            "sliding_window": 512,
        },
        short={"vocab_size": 1024, "hidden_size": 64, "num_hidden_layers": 6, "head_dim": 16},
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of texts, or of the two tasks of a router."""

    texts: Texts | None  # None: the tasks
    count: int


def _texts(kind: str, count: int, **lengths: float) -> Rows:
    limits = Lengths(**lengths)  # type: ignore[arg-type]
    return Rows(texts=Texts(kind=kind, lengths=limits, rows=count), count=count)


ROWS = {
    # Medians of a WordPiece tokenizer: SST-2 25 tokens, SQuAD's question with its context 160.
    "short pairs": _texts("pair", 20_000, median=25, sigma=0.5, low=16, high=64),
    "long pairs": _texts("pair", 8_000, median=160, sigma=0.4, low=24, high=512),
    "prompts": _texts("prompt", 4_000, median=180, sigma=0.8, low=16, high=2048),
    "tasks": Rows(texts=None, count=2_000),
}


def made(shape: str, rows: str, *, short: bool) -> Path:
    """Return a folder with model/, train.jsonl and valid.jsonl, or tasks/; made at its first use.

    A folder that is there was complete when it got its name.
    """
    folder = KEPT / f"{shape}-{rows}{'-short' if short else ''}".replace(" ", "-")
    if folder.exists():
        return folder
    KEPT.mkdir(exist_ok=True)
    begun = Path(tempfile.mkdtemp(dir=KEPT))
    data = ROWS[rows]
    kind = "prompt" if data.texts is None else data.texts.kind
    numbers = {**SHAPES[shape].numbers, **(SHAPES[shape].short if short else {})}
    tokenizer(begun / "model", kind, int(numbers["vocab_size"]))
    SHAPES[shape].save(begun / "model", short=short)
    if data.texts is None:
        _write_tasks(begun / "tasks", 64 if short else data.count)
    else:
        texts = replace(data.texts, rows=64) if short else data.texts
        write_rows(begun, texts, int(numbers["vocab_size"]))
    begun.rename(folder)
    return folder


def _write_tasks(folder: Path, count: int) -> None:
    """Write the rows of two tasks of task-router."""
    folder.mkdir()
    texts = [" ".join(f"w{4 + (at * 7 + i * i) % 900}" for i in range(24)) for at in range(count)]
    rows = {
        "sentiment": [{"text": text, "label": at % 2} for at, text in enumerate(texts)],
        "translation": [{"en": text, "fr": f"w5 {text}"} for text in texts],
    }
    for name, each in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in each))
