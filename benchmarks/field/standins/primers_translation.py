"""Stand-in for AI-Primers' pytorch-transformer: a local opus_books (en-it) and smaller settings."""

import json
import sys
from pathlib import Path

import numpy as np

PAIRS, WORDS = 80, 1500
SETTINGS = {  # the author's 32 pairs of 350 tokens at width 512 need minutes a step on one core
    '"batch_size": 32': '"batch_size": 4',
    '"num_epochs": 30': '"num_epochs": 2',
    '"seq_len": 350': '"seq_len": 160',
    '"d_model": 512': '"d_model": 128',
}
LETTERS = {"en": "etaoinshrdlucmf", "it": "eaionlrtscdpmvg"}


def vocabulary(rng: np.random.Generator, letters: str) -> list[str]:
    """Return made-up words of 2 to 9 letters."""
    found: dict[str, None] = {}
    while len(found) < WORDS:
        found["".join(rng.choice(list(letters), size=rng.integers(2, 10)))] = None
    return list(found)


def main() -> None:
    """Write 80 sentence pairs of book-like lengths (mean 28 tokens, at most 150) and config.py."""
    folder = Path(sys.argv[1]) / "pytorch-transformer"
    rng = np.random.default_rng(21)
    words = {language: vocabulary(rng, letters) for language, letters in LETTERS.items()}
    weight = 1 / np.arange(1, WORDS + 1)
    weight /= weight.sum()
    rows = []
    for at in range(PAIRS):
        length = int(np.clip(rng.lognormal(3.05, 0.75), 3, 140))
        picks = rng.choice(WORDS, size=length, p=weight)
        italian = np.clip(picks + rng.integers(-1, 2, size=length), 0, WORDS - 1)
        pair = {
            "en": " ".join(words["en"][pick] for pick in picks).capitalize() + " .",
            "it": " ".join(words["it"][pick] for pick in italian).capitalize() + " .",
        }
        rows.append(json.dumps({"id": str(at), "translation": pair}) + "\n")
    books = folder / "opus_books"
    books.mkdir(exist_ok=True)
    (books / "train.jsonl").write_text("".join(rows))
    head = "---\nconfigs:\n- config_name: en-it\n  data_files: train.jsonl\n---\n"
    (books / "README.md").write_text(head)
    (folder / "wandb").mkdir(exist_ok=True)
    (folder / "wandb" / "settings").write_text("[default]\nmode = offline\n")
    config = folder / "config.py"
    text = config.read_text()
    for old, new in SETTINGS.items():
        text = text.replace(old, new)
    config.write_text(text)


if __name__ == "__main__":
    main()
