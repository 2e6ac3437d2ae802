"""`make demo`: one slow script from the question to the proof, by the commands a user would type.

The doctor says why it is slow, tune finds what mends it, and the script then runs to its end as it
is and under the plan: both times are printed, and whether both saved the same bytes. Exit code 1
when the plan was not proved, is not faster in the whole run, or changed what is saved.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from hotloop.core.files import make_folder, read_json

SCRIPT = Path(__file__).parents[1] / "examples" / "slow" / "slow_getitem" / "train.py"


def shown(*words: str) -> float:
    """Print a command, run it, and return its seconds."""
    print(f"\n$ {shlex.join(words)}", flush=True)
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", *words], check=True)
    return time.perf_counter() - began


def digests(folder: Path) -> dict[str, str]:
    """Return the checksum of each file of a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def main() -> int:
    """Tell the story; its folders lie in runs/."""
    home = Path("runs", time.strftime("demo-%Y%m%d-%H%M%S"))
    make_folder(home)
    script, scratch = os.path.relpath(SCRIPT), str(home / "scratch")
    looked, tuned = str(home / "doctor"), str(home / "tune")
    shown("hotloop", "doctor", "--time", "15", "--out", looked, script, "--out", scratch)
    shown("hotloop", "tune", "--budget", "2m", "--out", tuned, script, "--out", scratch)
    plain, fast = str(home / "plain"), str(home / "fast")
    before = shown("hotloop", "run", "-q", script, "--out", plain)
    after = shown("hotloop", "run", "-q", "--plan", tuned, script, "--out", fast)
    result = read_json(Path(tuned, "trials.json"))
    proof = result["proof"]
    proved = isinstance(proof, dict) and proof["decision"] == "proved"
    equal = digests(Path(plain)) == digests(Path(fast))
    print(
        f"\nthe whole run: {before:.1f} s as it was, {after:.1f} s under the plan; what it saved "
        f"is {'the same, byte for byte' if equal else 'NOT the same'}"
    )
    print(f"pages: {looked}/report.html, {tuned}/report.html")
    return 0 if proved and equal and after < before else 1


if __name__ == "__main__":
    sys.exit(main())
