"""A whole training by nanoGPT's own train.py, in a process of its own, for benchmarks.quality.

python -m benchmarks.quality_nanogpt CHECKOUT TEXT SEED RESULT.json

CHECKOUT is karpathy/nanoGPT as it stands, and a copy of it is what runs, with the flags that its
README gives for a CPU. Two things are changed from outside: the seed, which it has no flag for, and
the text, which its prepare.py would download. Its seconds are the sum of the times that it prints
for each iteration without a validation; its loss is that of its last checkpoint, of all windows of
the validation part that do not overlap, as hotloop validates.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

__all__ = ["FLAGS", "STEPS", "main"]

STEPS: Final = 2000
# README.md of karpathy/nanoGPT, "I only have a macbook", 2026-11; validations and logs are ours.
FLAGS: Final = (
    "--device=cpu",
    "--compile=False",
    "--block_size=64",
    "--batch_size=12",
    "--n_layer=4",
    "--n_head=4",
    "--n_embd=128",
    f"--max_iters={STEPS}",
    f"--lr_decay_iters={STEPS}",
    "--dropout=0.0",
    "--eval_iters=1",
    f"--eval_interval={STEPS}",
    "--log_interval=1",
)
_SEEDED: Final = (
    "import sys, torch; seed = torch.manual_seed; more = int(sys.argv.pop(1)); "
    "torch.manual_seed = lambda number: seed(number + more); "
    "sys.path.insert(0, '.'); exec(open('train.py').read())"
)
_ITERATION: Final = re.compile(r"^iter (\d+): loss [\d.]+, time ([\d.]+)ms", re.MULTILINE)


def trained(checkout: Path, text: Path, seed: int) -> dict[str, Any]:
    """Train; return a curve of one point."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "nanoGPT"
        shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
        data = copy / "data" / "shakespeare_char"
        shutil.copy(text, data / "input.txt")
        subprocess.run([sys.executable, "prepare.py"], cwd=data, check=True, capture_output=True)
        config = "config/train_shakespeare_char.py"
        command = [sys.executable, "-c", _SEEDED, str(seed), config, *FLAGS, "--out_dir=out"]
        done = subprocess.run(command, cwd=copy, check=True, capture_output=True, text=True)
        times = {int(at): float(ms) for at, ms in _ITERATION.findall(done.stdout)}
        seconds = sum(ms for at, ms in times.items() if at % STEPS) / 1000
        loss = _loss(copy, data / "val.bin")
    return {"curve": [{"step": STEPS, "seconds": seconds, "loss": loss}], "steps": len(times)}


def _loss(copy: Path, held: Path) -> float:
    sys.path.insert(0, str(copy))
    from model import GPT, GPTConfig  # type: ignore[import-not-found]

    saved = torch.load(copy / "out" / "ckpt.pt", map_location="cpu", weights_only=True)
    model = GPT(GPTConfig(**saved["model_args"]))
    model.load_state_dict(saved["model"])
    model.eval()
    ids, context = np.fromfile(held, dtype=np.uint16).astype(np.int64), model.config.block_size
    windows = (len(ids) - 1) // context
    rows = torch.from_numpy(ids[: windows * context].reshape(windows, context))
    after = torch.from_numpy(ids[1 : windows * context + 1].reshape(windows, context))
    with torch.no_grad():
        losses = [
            float(model(x, y)[1]) * len(x)
            for x, y in zip(rows.split(64), after.split(64), strict=True)
        ]
    return sum(losses) / windows


def main(argv: list[str]) -> None:
    """Train and write what came of it."""
    checkout, text, seed, result = argv
    found = trained(Path(checkout), Path(text), int(seed))
    found["peak_MiB"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
