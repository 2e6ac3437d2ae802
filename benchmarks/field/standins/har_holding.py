"""Data for Siriusize/HumanActivityRecognition-holding_detection: fewer of its own recordings.

The repository brings its own recordings (500 rows of a phone's sensors each, JSON). The number of
epochs (300) is fixed in the script, so the run is shortened by taking 12 of the 37 for training.
"""

import sys
from pathlib import Path

KEPT = 12


def main() -> None:
    """Leave the first 12 recordings in training/ (4 steps an epoch); testing/ stays as it is."""
    checkout = Path(sys.argv[1])
    for path in (checkout / "training").glob("*.json"):
        if int(path.stem) >= KEPT:
            path.unlink()


if __name__ == "__main__":
    main()
