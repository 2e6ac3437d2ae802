"""The language model that benchmarks of answers begin with: small, and it has read plain text."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.text_runs import small_decoder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["plain_decoder"]

SHORTEST = 200  # characters of a text of WikiText; below are headings
SETTINGS = (
    "model.name=qwen3",
    "data.path=plain.jsonl",
    "data.text=text",
    "data.packing=true",
    "data.max_length=512",
    "adapter.method=none",
    "training.learning_rate=0.002",
    "training.epochs=3",
)


def plain_decoder(folder: Path, wikitext: Path, others: Sequence[Path]) -> None:
    """Write FOLDER/base: a Qwen3 of 4 x 256 that has read WikiText-2's two small parts three times.

    Its tokens are learned of one part and of `others`. Takes five minutes on two cores.
    """
    texts = "".join((wikitext / f"{part}.txt").read_text() for part in ("valid", "test"))
    rows = [{"text": one} for one in texts.split("\n \n") if len(one) > SHORTEST]
    (folder / "plain.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    small_decoder(folder / "qwen3", [*others, wikitext / "test.txt"])
    for words in (
        ["train", "chat-sft", *SETTINGS, "--out", "made"],
        ["export", "made", "--to", "hf", "--out", "base"],
    ):
        print("$ hotloop", " ".join(words), flush=True)
        subprocess.run([sys.executable, "-m", "hotloop", *words], cwd=folder, check=True)
