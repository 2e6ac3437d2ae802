"""Stand-in data for andrearichichi/NLU_project (LM/part_B): a small piece of its own Penn Treebank.

The repository holds ptb.valid.txt and ptb.test.txt; the training text is not at hand.
"""

import sys
from pathlib import Path

TRAIN, DEV, TEST = 300, 60, 60  # sentences


def main() -> None:
    """Write the training text from the validation text; unknown words elsewhere are <unk>."""
    folder = Path(sys.argv[1], "LM", "part_B", "dataset")
    texts = {}
    for part in ("valid", "test"):
        kept = folder / f"all.{part}.txt"
        if not kept.exists():
            kept.write_text((folder / f"ptb.{part}.txt").read_text())
        texts[part] = kept.read_text().splitlines()
    train, dev = texts["valid"][:TRAIN], texts["valid"][TRAIN : TRAIN + DEV]
    known = {word for line in train for word in line.split()}

    def cut(line: str) -> str:
        """Replace what the training text lacks."""
        return " " + " ".join(w if w in known else "<unk>" for w in line.split()) + " "

    parts = {"train": train, "valid": map(cut, dev), "test": map(cut, texts["test"][:TEST])}
    for part, lines in parts.items():
        (folder / f"ptb.{part}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
