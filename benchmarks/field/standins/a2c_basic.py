"""Stand-in for betray12138/Basic-RL-Algorithms: nothing to make, CartPole comes with gymnasium."""

import sys
from pathlib import Path

if __name__ == "__main__":
    assert (Path(sys.argv[1]) / "main_a2c_discrete.py").exists()
