"""Stand-in for CartPoleREINFORCE: the two folders its README asks for (no data)."""

import sys
from pathlib import Path


def main() -> None:
    """Make checkpoint/ and plots/; the environment is gymnasium's own CartPole."""
    for name in ("checkpoint", "plots"):
        (Path(sys.argv[1]) / name).mkdir(exist_ok=True)


if __name__ == "__main__":
    main()
