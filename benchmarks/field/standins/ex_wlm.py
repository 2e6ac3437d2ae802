"""Writes word_language_model/data/wikitext-2: 65,200 + 6,600 + 6,600 tokens of 3000 made words."""

import random
import sys
from pathlib import Path

import words

if __name__ == "__main__":
    folder = Path(sys.argv[1]) / "word_language_model" / "data" / "wikitext-2"
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    known = [*words.made(rng, 2995), "<unk>", ",", ".", "@-@"]
    rng.shuffle(known)
    for part, count in (("train", 65_200), ("valid", 6_600), ("test", 6_600)):
        lines, tokens = [], 0
        while tokens < count:
            length = min(count - tokens, max(2, round(rng.gauss(80, 45))))  # with <eos>
            lines.append(f" {words.sentence(rng, known, length - 1)} \n" if length > 1 else " \n")
            tokens += length
        (folder / f"{part}.txt").write_text("".join(lines))
