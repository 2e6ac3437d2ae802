"""Stand-in data for mihir-s-05/diffusiongpt: its shakespeare_char files, of made words."""

import pickle
import random
import sys
from pathlib import Path

import numpy as np
import words

LENGTH = 1_115_394

if __name__ == "__main__":
    folder, rng = Path(sys.argv[1]) / "data" / "shakespeare_char", random.Random(0)
    folder.mkdir(parents=True, exist_ok=True)
    known = words.made(rng, 4000)
    weights = [1 / (rank + 20) for rank in range(len(known))]
    letters = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    parts, length = [letters], len(letters)
    while length < LENGTH:  # speeches: a name, then lines of verse
        verse = [" ".join(rng.choices(known, weights, k=7)) for _ in range(rng.randint(1, 6))]
        ends = [rng.choice(",,;.") for _ in verse[1:]] + [rng.choice("..?!")]
        lines = [line.capitalize() + end for line, end in zip(verse, ends, strict=True)]
        parts.append("\n".join(["", rng.choice(known[:40]).upper() + ":", *lines, ""]))
        length += len(parts[-1])
    text = "".join(parts)[:LENGTH]
    stoi = {letter: at for at, letter in enumerate(sorted(letters))}
    ids = np.array([stoi[letter] for letter in text], dtype=np.uint16)
    cut = int(LENGTH * 0.9)
    ids[:cut].tofile(folder / "train.bin")
    ids[cut:].tofile(folder / "val.bin")
    itos = {at: letter for letter, at in stoi.items()}
    meta = {"vocab_size": len(stoi), "itos": itos, "stoi": stoi}
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))
