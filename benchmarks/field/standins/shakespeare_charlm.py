"""Stand-in for Shakespeare_TinyLMs: a part of tiny Shakespeare as data/input.txt."""

import os
import sys
from pathlib import Path

LETTERS = 200_000  # of 1,115,394


def main() -> None:
    """Write data/input.txt, the first letters of tiny Shakespeare (as get_data.sh fetches it)."""
    source = Path(os.environ.get("FIELD_DATA", "/work/shared/data"))
    text = (source / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8")
    folder = Path(sys.argv[1]) / "data"
    folder.mkdir(exist_ok=True)
    (folder / "input.txt").write_text(text[:LETTERS], encoding="utf-8")


if __name__ == "__main__":
    main()
