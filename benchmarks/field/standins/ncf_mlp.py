"""Cuts the MovieLens ratings that HarshdeepGupta/recommender_pytorch carries to 400 users."""

import sys
from pathlib import Path

USERS = 400


def main() -> None:
    """Keep the ratings of the first users in both files; the script itself is not edited."""
    folder = Path(sys.argv[1]) / "Data"
    for part in ("train", "test"):
        path = folder / f"movielens.{part}.rating"
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(x for x in lines if int(x.split("\t")[0]) <= USERS))


if __name__ == "__main__":
    main()
