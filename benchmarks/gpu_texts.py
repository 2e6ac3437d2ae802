"""The ladders of the text recipes on a GPU: `hotloop bench RECIPE` on models with random weights.

python -m benchmarks.gpu_texts [--smoke]   --smoke: tiny models on any device, to try the script
Writes benchmarks/results/gpu-texts-<GPU>.json (under $OUT where that is set) with the hardware in
it; a smoke run writes nothing. Models have the sizes of all-MiniLM-L6 and Qwen3-0.6B, with weights
drawn from a seed, and rows are those of benchmarks.recipe_data. What cannot be run stands there
with its reason.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.recipe_data import Lengths, Sizes, Texts, written
from hotloop.core.storage.files import make_folder, write_json
from hotloop.machine.detect import detect

LIMIT_S = 90  # of one ladder: it writes its result after each rung
ROUNDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A ladder."""

    recipe: str
    texts: Texts
    sizes: Sizes
    settings: tuple[str, ...]  # length and batch first
    rungs: str

    def tiny(self) -> Case:
        """Return it at sizes that show only that it runs."""
        short = replace(self.texts.lengths, median=16, high=32, low=8)
        sizes = Sizes(width=32, layers=1, heads=2, vocabulary=1024, positions=1024)
        texts = replace(self.texts, lengths=short, rows=64)
        settings = (f"data.max_length={short.high}", "training.batch_size=8", *self.settings[2:])
        return replace(self, texts=texts, sizes=sizes, settings=settings, rungs="own")


SENTENCES = Lengths(median=160, sigma=0.5, low=24, high=512)
CHATS = Lengths(median=180, sigma=0.8, low=16, high=2048)
MINILM = Sizes(width=384, layers=6, heads=12, vocabulary=30_522, positions=512)
QWEN = Sizes(width=1024, layers=28, heads=16, vocabulary=151_936, positions=4096)
CASES = {
    "MiniLM classifier": Case(
        recipe="pair-classifier",
        texts=Texts(kind="pair", lengths=SENTENCES, rows=8000),
        sizes=MINILM,
        settings=("data.max_length=512", "training.batch_size=64", "training.accumulation=1"),
        rungs="longest,flat,own",
    ),
    "Qwen3-0.6B LoRA": Case(
        recipe="expert-sft",
        texts=Texts(kind="prompt", lengths=CHATS, rows=4000),
        sizes=QWEN,
        settings=("data.max_length=2048", "training.batch_size=16", "data.packing=true"),
        rungs="longest,packed,own",
    ),
}


def climb(case: Case, folder: Path, *, rounds: int) -> dict[str, object]:
    """Run a ladder; return its result, or what it said where there is none."""
    written(folder, case.texts, case.sizes)
    out = folder / "result.json"
    command = [sys.executable, "-m", "hotloop", "bench", "-q", case.recipe]
    command += [f"model.name={folder / 'model'}", f"data.path={folder / 'train.jsonl'}"]
    command += [f"data.valid_path={folder / 'valid.jsonl'}", *case.settings, "--no-epochs"]
    command += ["--rungs", case.rungs, "--rounds", str(rounds), "--json", str(out)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        said = done.stderr.strip().splitlines()[-3:]
    except subprocess.TimeoutExpired:
        said = [f"stopped after {LIMIT_S} s"]
    return json.loads(out.read_text()) if out.exists() else {"failed": said}


def main() -> None:
    """Climb the ladders, print them and write them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    smoke = parser.parse_args().smoke
    hardware, found = detect(), {}
    gpu = re.sub(r"[^a-z0-9]+", "-", hardware.name.lower()).strip("-")
    target = Path(os.environ.get("OUT") or Path(__file__).parent / "results")
    make_folder(target)
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            case = case.tiny() if smoke else case
            found[name] = one = climb(case, Path(folder), rounds=2 if smoke else ROUNDS)
            print(f"{name}: {one.get('failed') or 'climbed'}", flush=True)
            if smoke and "failed" in one:
                sys.exit(1)
            if not smoke:  # its figures say nothing about a GPU
                said = {"hardware": hardware.to_json(), "ladders": found}
                write_json(target / f"gpu-texts-{gpu}.json", said)


if __name__ == "__main__":
    main()
