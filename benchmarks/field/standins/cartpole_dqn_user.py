"""Makes model/ and sets NUM_EPISODES = 75 (1500 before) in the script's own config.py."""

import sys
from pathlib import Path

if __name__ == "__main__":
    checkout = Path(sys.argv[1])
    (checkout / "model").mkdir(exist_ok=True)
    config = checkout / "config.py"
    text = config.read_text()
    config.write_text(text.replace("NUM_EPISODES = 1500", "NUM_EPISODES = 75"))
