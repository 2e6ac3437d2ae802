"""What must hold of whole runs on a GPU: memory that is not enough, resuming, and saving.

    python -m benchmarks.gpu.runs --json FILE [out-of-memory] [resume] [saving] [--short]

out-of-memory: so little memory is left that the first step cannot be made; the run must halve its
micro batch and end. resume: a run that was stopped and resumed has the weights of one that was not,
bit for bit. saving: the seconds that the loop stands still for a save, at once and in the
background.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.part import Writer, options

LIMIT_S = 60
SHORT = ("model.layers=2", "model.heads=2", "model.width=32", "model.context=32")
SHORT = (*SHORT, "training.batch_size=8", "data.max_chars=20000", "training.use_compile=false")
EAGER = "training.use_compile=false"  # compiling takes longer than these runs
SMALL = ("preset=h100", "model.dropout=0.1", EAGER)  # dropout: the generators must go on as well
BODY = ("model.layers=12", "model.heads=12", "model.width=768", "model.context=256")
BODY = (*BODY, "training.batch_size=16", "training.accumulation=1", EAGER)
# GPT-2's: 85 M, 1 GB a save
LEFT_MIB, SHORT_LEFT_MIB = 1500, 112  # char-lm's batch of 384 needs 10 GB, the short one's 0.3


def trained(out: Path, *words: str) -> list[str]:
    """Return the command of a run into `out`."""
    command = [sys.executable, "-m", "hotloop", "train", "-q", "char-lm", *words]
    return [*command, "training.eval_batches=1", "training.warmup_steps=4", "--out", str(out)]


def events(out: Path, kind: str) -> list[dict[str, Any]]:
    """Return the events of a kind that a run has written, whole lines only."""
    file = out / "events-r0.jsonl"
    text = file.read_text() if file.exists() else ""
    lines = [line for line in text[: text.rfind("\n") + 1].splitlines() if line]
    return [event for line in lines if (event := json.loads(line))["kind"] == kind]


def run(command: list[str]) -> None:
    """Run a command; raise RuntimeError with its last lines if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(" / ".join(done.stderr.strip().splitlines()[-3:]))


def out_of_memory(folder: Path, *, short: bool) -> dict[str, Any]:
    """Train with memory for a part of the micro batch only; return what the run said of it."""
    words = ["char-lm", *(SHORT if short else SMALL), "training.accumulation=1"]
    if short:  # cuBLAS takes 32 MiB, and segments grow by 20
        words = [word.replace("batch_size=8", "batch_size=512") for word in words]
    left = SHORT_LEFT_MIB if short else LEFT_MIB
    command = [sys.executable, "-m", "benchmarks.gpu.steps", "--json", str(folder / "oom.json")]
    command += ["--leave-mib", str(left), *(["--short"] if short else []), "--", *words]
    run(command)
    found: dict[str, Any] = json.loads((folder / "oom.json").read_text())
    halved = [note for note in found["notes"] if "out of memory" in note]
    return {**found, "halved": halved, "holds": bool(halved)}


def resume(folder: Path, *, short: bool) -> dict[str, Any]:
    """Compare the weights of a run that was stopped and resumed with those of a whole one."""
    import torch
    from safetensors.torch import load_file

    steps = 200 if short else 400
    words = [*(SHORT if short else SMALL), f"training.max_steps={steps}"]
    words += ["training.save_every_steps=20", "training.log_every=20"]
    whole, cut = folder / "whole", folder / "cut"
    run(trained(whole, *words))
    process = subprocess.Popen(trained(cut, *words), stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + LIMIT_S
        while len(events(cut, "save")) < 2 and process.poll() is None:
            if time.monotonic() > until:
                raise RuntimeError(f"no second save within {LIMIT_S} s")
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    begun = len(events(cut, "step"))
    run([sys.executable, "-m", "hotloop", "train", "-q", "--resume", str(cut)])
    last = f"checkpoints/step-{steps:08d}/model.safetensors"
    one, other = load_file(whole / last), load_file(cut / last)
    apart = [
        name for name in one if not torch.equal(one[name].view(torch.uint8), _bytes(other[name]))
    ]
    return {"killed after step": begun, "steps": steps, "tensors": len(one), "apart": apart}


def _bytes(tensor: Any) -> Any:
    import torch

    return tensor.view(torch.uint8)


def saving(folder: Path, *, short: bool) -> dict[str, Any]:
    """Return the seconds that the loop and the disk took for each save, at once and behind."""
    found: dict[str, Any] = {}
    words = [*(SHORT if short else BODY), "training.max_steps=60", "training.save_every_steps=10"]
    for name, more in {"at once": [], "in the background": ["--with", "async-checkpoint"]}.items():
        out = folder / name.replace(" ", "-")
        run([*trained(out, *words), *more])
        saves = events(out, "save")
        found[name] = {
            "bytes": saves[-1]["bytes"],
            "blocked, s": [save["wall"] for save in saves],
            "durable, s": [save["durable"] for save in saves],
            "a step, s": sorted(e["wall"] for e in events(out, "step"))[30],
        }
    return found


WAYS = {"out-of-memory": out_of_memory, "resume": resume, "saving": saving}


def main() -> int:
    """Make the runs, print a line each; 1 if one failed or does not hold."""
    chosen = options(__doc__, names=f"of {', '.join(WAYS)}; default: all")
    out, bad = Writer(chosen.json), False
    for name in chosen.names or WAYS:
        try:
            with tempfile.TemporaryDirectory() as folder:
                found = WAYS[name](Path(folder), short=chosen.short)
        except (RuntimeError, OSError, subprocess.TimeoutExpired, KeyError) as error:
            found = {"failed": f"{type(error).__name__}: {error}"}
        out.put(name, found)
        # Values mean nothing in a rehearsal.
        wrong = found.get("holds") is False or (found.get("apart") and not chosen.short)
        bad |= "failed" in found or bool(wrong)
        print(f"  {name}: {json.dumps(found)[:300]}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
