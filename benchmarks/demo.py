"""`make demo`: one slow script from the question to the proof, by the commands a user would type.

The doctor says why the script is slow, tune finds out what helps, and the script then runs to its
end twice: as it is, and under the plan. The demo prints both times and whether both runs saved the
same bytes; where the plan has a technique that rounds otherwise, how far the weights are apart. On
a machine that is too busy to compare two runs it says so.
Exit code 1: the plan is refused or not faster, or it changes what is saved beyond its promise.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from hotloop.core.storage.files import make_folder, read_json
from hotloop.core.tuning_result import Tuned
from hotloop.techniques import get
from hotloop.techniques.base import Numerics

FASTER = "sample-cache"  # the technique that helps
WEIGHTS = "model.pt"  # that the script saves
# Of the weights' norm, after 16 epochs whose sums had another order: 0.004 was measured with fused
# AdamW, 1.4 with another seed (docs/log.md); it grows with each step.
ROUNDING = 0.05
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


def apart(one: Path, other: Path) -> float:
    """Return how far the weights that two runs saved are from each other, of their norm."""
    import torch

    saved = [torch.load(folder / WEIGHTS, weights_only=True) for folder in (one, other)]
    if saved[0].keys() != saved[1].keys():
        return float("inf")
    a, b = (torch.cat([part.double().flatten() for part in each.values()]) for each in saved)
    return float((a - b).norm() / a.norm()) if a.shape == b.shape else float("inf")


def outcome(tuned: Tuned, before: float, after: float, *, distance: float) -> tuple[int, str]:
    """Return the exit code and the last sentence: seconds as it was and under the plan.

    `distance` is that of the saved weights, of their norm; 0: the same bytes.
    """
    said = f"the whole run: {before:.1f} s as it was, {after:.1f} s under the plan"
    rounds = [
        use.id for use in tuned.plan.techniques if get(use.id).numerics is not Numerics.BITWISE
    ]
    if distance > (ROUNDING if rounds else 0.0):
        return 1, f"{said}; what it saved is NOT the same"
    if tuned.is_proved:
        slower = "" if after < before else "; the whole run is NOT faster"
        same = "what it saved is the same, byte for byte"
        if distance:
            by = f"{distance:.1g} of the weights' norm"
            same = f"what it saved differs by rounding ({by}), which {', '.join(rounds)} promises"
        return int(after >= before), f"{said}; {same}{slower}"
    rows = [*tuned.rows, *([tuned.proof] if tuned.proof else [])]
    decisions = [row.decision for row in rows if FASTER in row.name]
    if decisions[-1:] in ([], ["cannot be told"], ["not tried"]):
        return 0, f"UNKNOWN: {tuned.said}. Try again when no other program runs."
    return 1, f"no plan was proved: {tuned.said}"


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
    same = digests(Path(plain)) == digests(Path(fast))
    code, said = outcome(
        Tuned.from_json(read_json(Path(tuned, "trials.json"))),
        before,
        after,
        distance=0.0 if same else apart(Path(plain), Path(fast)),
    )
    print(f"\n{said}\npages: {looked}/report.html, {tuned}/report.html")
    return code


if __name__ == "__main__":
    sys.exit(main())
