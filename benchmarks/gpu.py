"""char-lm plan by plan on a GPU: each rung is the real command in a fresh process.

python -m benchmarks.gpu [--smoke]   --smoke: a tiny model on any device, to try the script itself
Writes benchmarks/results/gpu-<GPU>.json (under $OUT where that is set) with the hardware in it,
anew after each rung: what ends the call costs one. A smoke run writes nothing.
"""

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from hotloop.api import load_run
from hotloop.core.measurement import Measurement
from hotloop.core.plan import Plan
from hotloop.core.storage.files import make_folder, write_json
from hotloop.machine.detect import detect

LOG_EVERY, WINDOWS, WARM_UP = 20, 6, 2  # a reading is one log interval: it ends in a wait
STEPS = LOG_EVERY * (WARM_UP + WINDOWS) + 1
FULL = ["preset=h100", "model.dropout=0"]
SMOKE = ["preset=cpu", "training.batch_size=4", "model.context=32", "data.max_chars=200000"]
LIMIT_S = 150  # of one rung


def rungs(micro_batch: int) -> dict[str, Plan]:
    """Return the ladder: one technique more on each rung."""
    plain = Plan(micro_batch=micro_batch).plus("sdpa", backend="naive")
    fused = plain.plus("sdpa", backend="auto")
    low = fused.plus("autocast-bf16")
    lean = low.plus("fused-adamw").plus("lagged-loss-read").plus("gc-freeze")
    return {
        "plain fp32, naive attention": plain,
        "+ sdpa": fused,
        "+ tf32": fused.plus("tf32"),
        "+ bf16 autocast instead of tf32": low,
        "+ fused AdamW, lagged reads, gc freeze": lean,
        "+ device prefetch": lean.plus("device-prefetch"),
        "+ CUDA graphs": lean.plus("cuda-graphs"),
        "+ compile": lean.plus("compile"),
        "+ compile, CUDA graphs": lean.plus("compile").plus("cuda-graphs"),
    }


def measure(settings: list[str], plan: Plan, folder: Path) -> dict[str, object]:
    """Train briefly under a plan; return tokens/s per log interval and what was in effect."""
    file = folder / f"{plan.fingerprint}.json"
    write_json(file, plan.to_json())
    out = folder / plan.fingerprint
    command = [sys.executable, "-m", "hotloop", "train", "-q", "char-lm", "--plan", str(file)]
    command += ["--out", str(out), *settings, f"training.max_steps={STEPS}"]
    command += [f"training.log_every={LOG_EVERY}", "training.eval_batches=1"]
    command += ["training.warmup_steps=10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    run = load_run(out)
    starts = {e["step"]: e["t"] for e in _events(out) if e["step"] % LOG_EVERY == 1}
    tokens = run.steps[0].tokens * LOG_EVERY
    edges = [starts[LOG_EVERY * i + 1] for i in range(WARM_UP, WARM_UP + WINDOWS + 1)]
    rates = [tokens / (b - a) for a, b in itertools.pairwise(edges)]
    return {
        "tokens_per_s": Measurement(unit="tokens/s", readings=tuple(rates)).to_json(),
        "effects": run.record["effects"],
        "loss": run.steps[-1].loss,
    }


def _events(out: Path) -> list[dict[str, float]]:
    lines = (out / "events-r0.jsonl").read_text().splitlines()
    return [event for line in lines if (event := json.loads(line))["kind"] == "step"]


def main() -> None:
    """Climb the ladder, print it and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    settings = SMOKE if parser.parse_args().smoke else FULL
    batch = 4 if settings is SMOKE else 384
    hardware, result = detect(), {}
    gpu = re.sub(r"[^a-z0-9]+", "-", hardware.name.lower()).strip("-")
    target = Path(os.environ.get("OUT") or Path(__file__).parent / "results")
    make_folder(target)
    with tempfile.TemporaryDirectory() as folder:
        for name, plan in rungs(batch).items():
            one = measure(settings, plan, Path(folder))
            result[name] = one
            rate = one.get("tokens_per_s")
            median = Measurement.from_json(rate).median if isinstance(rate, dict) else None
            print(f"{name:<42} {one.get('failed') or f'{median:,.0f} tokens/s'}", flush=True)
            if settings is FULL:  # the others' figures say nothing about a GPU
                said = {"hardware": hardware.to_json(), "ladder": result}
                write_json(target / f"gpu-{gpu}.json", said)


if __name__ == "__main__":
    main()
