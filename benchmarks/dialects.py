"""What becomes of the keys of public training files that nobody here wrote.

    python -m benchmarks.dialects CHECKOUTS

CHECKOUTS has a git repository OWNER+NAME/repo for each file of results/dialects.json, as `fetch`
makes them. Each file is read with model.path= and data.path= on the command line, as its own paths
are a stranger's. Writes the counts of today beside those of the first contact, which stay; files of
others are not kept. The table stands in docs/manifests.md.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.table import RESULTS
from hotloop.core.errors import ConfigError
from hotloop.core.storage.files import read_json, write_json
from hotloop.recipes.sft.manifests import checked_manifest

RESULT = RESULTS / "dialects.json"
TYPED = ("model.path=/model", "data.path=/data")
WORDS = ("in effect", "not needed here", "other program's", "refused")


def counts(path: Path) -> dict[str, Any]:
    """Return the number of keys by outcome; of a file that cannot be read, the error."""
    try:
        manifest = checked_manifest(path, TYPED)
    except ConfigError as error:
        return {"error": str(error).replace(str(path), path.name)}
    found = Counter(answer.word for answer in manifest.answers)
    found["other program's"] = len(manifest.others)
    return {word: found[word] for word in WORDS}


def row(file: dict[str, Any]) -> str:
    """Return the line of a file in the table of docs/manifests.md."""
    cells = [f"{file['repo']}, `{file['path']}`", file["program"]]
    for when in ("first", "now"):
        found = file[when]
        text = found.get("error") or ", ".join(str(found[word]) for word in WORDS)
        cells.append(text)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Read every file, and keep what came of it."""
    result = read_json(RESULT)
    files: Any = result["files"]
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            where = Path(sys.argv[1], file["repo"].replace("/", "+"), "repo")
            name = f"{file['commit']}:{file['path']}"
            text = subprocess.run(
                ["git", "-C", where, "show", name], capture_output=True, check=True
            ).stdout
            path = Path(folder, Path(file["path"]).name)
            path.write_bytes(text)
            file["now"] = counts(path)
            print(row(file))
    write_json(RESULT, result)


if __name__ == "__main__":
    main()
