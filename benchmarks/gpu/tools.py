"""`hotloop tune` and `hotloop monitor` on a GPU.

    python -m benchmarks.gpu.tools --json FILE [tune-script] [tune-recipe] [monitor] [--short]

monitor watches a run of known load: its figures stand beside those of the run's own events.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.diagnosed import EXAMPLES
from benchmarks.gpu.commands import ENDS_S, run
from benchmarks.gpu.part import Deadline, Writer, options
from benchmarks.gpu.runs import SHORT, SMALL, events, trained

BUDGET_S, SHORT_BUDGET_S = 30, 20  # a script is not tried if its start takes the budget
WATCHED_S, SHORT_WATCHED_S = 10, 2
TO_TUNE = EXAMPLES / "gpu" / "single_updates.py"  # one technique mends it: fused-adamw


def tuned(words: list[str], folder: Path, *, limit_s: float, short: bool) -> dict[str, Any]:
    """Return the result of `hotloop tune`, or what it said where there is none."""
    budget, out = SHORT_BUDGET_S if short else BUDGET_S, folder / "tuned.json"
    command = [sys.executable, "-m", "hotloop", "tune", "-q", "--budget", f"{budget}s"]
    command += ["--out", str(folder / "tune"), "--json", str(out), *words]
    done = run(command, limit_s, cwd=folder)
    found: dict[str, Any] = {"said": done.said[-12:]}
    if out.exists():
        found["result"] = json.loads(out.read_text())
    return found if done.failed is None else {**found, "failed": done.failed}


def tune_script(folder: Path, *, limit_s: float, short: bool) -> dict[str, Any]:
    """Tune a script whose optimizer updates tensor by tensor."""
    return tuned([str(TO_TUNE)], folder, limit_s=limit_s, short=short)


def tune_recipe(folder: Path, *, limit_s: float, short: bool) -> dict[str, Any]:
    """Tune char-lm."""
    return tuned(["char-lm", *(SHORT if short else SMALL)], folder, limit_s=limit_s, short=short)


def monitor(folder: Path, *, limit_s: float, short: bool) -> dict[str, Any]:
    """Watch a run for some seconds; return the summary beside the run's own steps."""
    seconds, made_by = SHORT_WATCHED_S if short else WATCHED_S, folder / "run"
    words = [*(SHORT if short else SMALL), "training.log_every=10", "training.max_steps=1000000"]
    process = subprocess.Popen(trained(made_by, *words), stderr=subprocess.DEVNULL)
    try:
        wait_s = min(60.0, limit_s)
        until = time.monotonic() + wait_s
        while len(events(made_by, "step")) < 20 and process.poll() is None:
            if time.monotonic() > until:
                return {"failed": f"the run made no 20 steps within {wait_s:.0f} s"}
            time.sleep(0.2)
        if (code := process.poll()) is not None:
            return {"failed": f"the run ended with {code} before it was watched"}
        before = len(events(made_by, "step"))
        watch = [sys.executable, "-m", "hotloop", "monitor", "-q", "--duration", str(seconds)]
        watch += ["--interval", "0.5", "--output", str(folder / "seen.json"), str(made_by)]
        done = subprocess.run(watch, capture_output=True, text=True, timeout=90, check=False)
        made = events(made_by, "step")[before:]
    finally:
        process.kill()
        process.wait()
    if done.returncode:
        return {"failed": f"exit code {done.returncode}: {done.stderr.strip()[-500:]}"}
    seen = json.loads((folder / "seen.json").read_text())
    return {
        "watched, s": seconds,
        "steps meanwhile": len(made),
        "wall of the steps, s": sum(event["wall"] for event in made),
        "seen": {key: value for key, value in seen.items() if key != "samples"},
    }


WAYS = {"tune-script": tune_script, "tune-recipe": tune_recipe, "monitor": monitor}


def main() -> int:
    """Run the tools; 1 if one failed."""
    chosen = options(__doc__, names=f"of {', '.join(WAYS)}; default: all")
    out, failed, deadline = Writer(chosen.json), False, Deadline(chosen.seconds)
    names = chosen.names or [*WAYS]
    for at, name in enumerate(names):
        limit_s = max(0.0, deadline.left() / (len(names) - at) - ENDS_S)
        try:
            with tempfile.TemporaryDirectory() as folder:
                found = WAYS[name](Path(folder), limit_s=limit_s, short=chosen.short)
        except (OSError, subprocess.TimeoutExpired, KeyError) as error:
            found = {"failed": f"{type(error).__name__}: {error}"}
        out.put(name, found)
        failed |= "failed" in found
        said = found.get("failed") or found.get("said") or found.get("steps meanwhile")
        print(f"  {name}: {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
