"""Writes rnn/standin and rnn/valid (640 + 128 short sentences, four classes), then prepares."""

import os
import random
import subprocess
import sys
from pathlib import Path

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def sentence(rng: random.Random, words: dict[str, list[str]], name: str) -> str:
    """Return 6 to 14 letters: words of the class among words of all."""
    length = rng.randint(6, 14)
    found: list[str] = []
    while len(" ".join(found)) < length:
        found.append(rng.choice(words[name] if rng.random() < 0.7 else words["all"]))
    return " ".join(found)[:length].strip().ljust(6, "a")


if __name__ == "__main__":
    folder = Path(sys.argv[1]) / "rnn"
    rng = random.Random(19)
    classes = ["art", "food", "sport", "trade"]
    words = {
        name: ["".join(rng.choices(LETTERS, k=rng.randint(2, 5))) for _ in range(40)]
        for name in [*classes, "all"]
    }
    for part, count in (("standin", 640), ("valid", 128)):
        rows = []
        for _ in range(count):
            name = rng.choice(classes)
            rows.append(f"{sentence(rng, words, name)}\t{name}\n")
        (folder / part).write_text("".join(rows))
    environment = {**os.environ, "PYTHONPATH": str(folder.resolve())}
    command = [sys.executable, "../prepare.py", "standin"]
    subprocess.run(command, cwd=folder, env=environment, check=True)
