"""Not a test: runs a script on the null card, and writes what it did; see `programs.run`."""

import json
import sys
from pathlib import Path
from typing import Any

from hotloop.nullcard.counts import as_json, counted, counts, ordered, reset


def main(source: str, answer: str) -> None:
    """Run the script in `source`; write its `facts` and the counts of this process to `answer`."""
    facts: dict[str, Any] = {}
    names = {"facts": facts, "counted": counted, "counts": counts, "reset": reset}
    names |= {"ordered": ordered, "__name__": "__main__"}
    exec(compile(Path(source).read_text(), source, "exec"), names)
    said = {"facts": facts, "counts": json.loads(as_json())}
    Path(answer).write_text(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
