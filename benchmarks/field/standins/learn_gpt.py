"""Stand-in for learnGPT: nothing to make, the repository holds its text; looks that it is there."""

import sys
from pathlib import Path

if __name__ == "__main__":
    assert Path(sys.argv[1], "data", "input.txt").stat().st_size > 1_000_000
