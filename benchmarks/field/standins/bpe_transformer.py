"""Readies yervandsargsyan/transformer-from-scratch: its tokenizer, fewer windows, two epochs."""

import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Train the repository's tokenizer on its own corpus; window shift 300, 2 epochs."""
    checkout = Path(sys.argv[1])
    command = [sys.executable, "-m", "scripts.train_tokenizer"]
    subprocess.run(command, cwd=checkout, check=True)
    script = checkout / "scripts" / "train_loop.py"
    text = script.read_text(encoding="utf-8")
    text = text.replace("stride = 1 ", "stride = 300 ").replace("n_epochs = 10 ", "n_epochs = 2 ")
    script.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
