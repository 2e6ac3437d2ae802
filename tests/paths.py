"""Where the repository and the shared data lie, for tests in folders of any depth."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared" / "data"
