"""Trains on small samples of public data sets, each in the shape in which it is published.

    python -m benchmarks.public_sets FOLDER [--only SLUG,...]

FOLDER gets the samples of benchmarks.public_samples, which are made of shared/data, and a run
folder for each. Every set is first trained on as it comes. Where hotloop asks a question, what
ANSWERS has is typed, and both are kept. 30 steps of 16 rows: of MiniLM for labels, of a small
decoder with random weights for texts. The score shows that the rows reach the model, not how good
it is. Writes results/public_sets.json; the table stands in docs/data-sets.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.table import RESULTS
from benchmarks.text_runs import minilm, small_decoder
from hotloop.core.storage.files import read_json, write_json

RESULT = RESULTS / "public_sets.json"
STEPS = 30
# What a person answers to the question that a set is met with.
ANSWERS = {
    "agnews-csv": ["data.label=0", "data.text_a=1", "data.text_b=2"],
    "clinc150-json": ["data.text_a=0", "data.label=1"],
    "mnli-jsonl": ["data.bad=skip"],
    "snli-jsonl": ["data.bad=skip"],
    "snli-hub-parquet": ["data.bad=skip"],
    "apps-hub-jsonl": ["data.bad=skip"],
    "sharegpt-json": ["data.bad=skip"],
    "wikitext-hub-parquet": ["data.bad=skip"],
    "wmt-hub-parquet": ["data.prompt=translation.de", "data.response=translation.en"],
    "wmt-fr-hub-parquet": ["data.prompt=translation.fr", "data.response=translation.en"],
    "wmt-tsv": ["data.prompt=0", "data.response=1", "data.bad=skip"],
    "newsgroups-folders": ["data.bad=skip"],
    "wmt-moses": ["data.prompt=de", "data.response=en"],
    "spider-folder": ["data.path={}/train_spider.json", "data.valid_path={}/dev.json"],
}
# What a person types at once: one document is a row, unless rows are packed.
TYPED = {"wikitext-raw": ["data.packing=true"]}
# The caches are found by the names that people give to load_dataset.
NAMES = {"hf-datasets-cache": "glue::train::sst2", "hf-hub-cache": "stanfordnlp/sst2"}
CACHES = {
    "HF_DATASETS_CACHE": "hf-datasets-cache/huggingface/datasets",
    "HF_HUB_CACHE": "hf-hub-cache/huggingface/hub",
}
LABELS = ("classification", "pairs")
BESIDE = {
    "labels": ["model.name=minilm", "training.learning_rate=1e-4"],
    "texts": ["model.name=decoder", "adapter.method=none", "training.learning_rate=3e-3"],
}


def main() -> None:
    """Train on every set, and keep what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--only", metavar="SLUG,...", help="some sets; the others' results stay")
    options = parser.parse_args()
    folder = options.folder.resolve()
    if not (folder / "sets.json").is_file():
        command = [sys.executable, "-m", "benchmarks.public_samples", str(folder)]
        subprocess.run(command, check=True)
    sets = json.loads((folder / "sets.json").read_text())
    furnish(folder, sets)
    wanted = set(options.only.split(",")) if options.only else {one["slug"] for one in sets}
    rows = [trained(folder, one) for one in sets if one["slug"] in wanted]
    found = {
        row["slug"]: row for row in [*(read_json(RESULT)["sets"] if options.only else []), *rows]
    }
    write_json(RESULT, {"steps": STEPS, "sets": [found[one["slug"]] for one in sets]})


def furnish(folder: Path, sets: list[dict[str, Any]]) -> None:
    """Put a pretrained encoder and a small decoder beside the samples."""
    if not (folder / "minilm").exists():
        (folder / "minilm").symlink_to(minilm())
    if not (folder / "decoder").exists():
        texts = [folder / "data" / "alpaca-json", folder / "data" / "xsum-jsonl"]
        files = [path for place in texts for path in sorted(place.rglob("*.json*"))]
        small_decoder(folder / "decoder", files)


def trained(folder: Path, one: dict[str, Any]) -> dict[str, Any]:
    """Return what came of a set: as it comes and, where that asks a question, as answered."""
    kind = "labels" if one["kind"] in LABELS else "texts"
    place = NAMES.get(one["slug"], one["folder"])
    row = {name: one[name] for name in ("slug", "name", "form", "published_by", "verified")}
    row["recipe"] = "pair-classifier" if kind == "labels" else "chat-sft"
    if one["slug"] in TYPED:
        row["answers"] = TYPED[one["slug"]]
    first = [f"data.path={place}", *row.get("answers", ()), *BESIDE[kind]]
    row["first"] = run(folder, row, first)
    if row["first"]["exit"] and one["slug"] in ANSWERS:
        answers = [word.format(place) for word in ANSWERS[one["slug"]]]
        is_placed = answers[0].startswith("data.path=")
        typed = answers if is_placed else [f"data.path={place}", *answers]
        row["answers"] = answers
        row["then"] = run(folder, row, [*typed, *BESIDE[kind]])
    shown = {key: row[key] for key in ("slug", "first", "then") if key in row}
    print(json.dumps(shown, ensure_ascii=False), flush=True)
    return row


def run(folder: Path, row: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """Train, and return the exit code with the score, or with what was asked."""
    out = folder / "runs" / row["slug"]
    subprocess.run(["rm", "-rf", str(out)], check=True)
    typed = ["train", row["recipe"], *words, f"training.max_steps={STEPS}"]
    typed += ["training.batch_size=16", "training.warmup_steps=3", "data.max_length=256"]
    caches = {name: str(folder / "data" / place) for name, place in CACHES.items()}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "hotloop", *typed, "--out", str(out)],
        cwd=folder,
        env={**os.environ, **caches, "HOTLOOP_CACHE": str(folder / "cache"), "COLUMNS": "500"},
        capture_output=True,
        text=True,
        check=False,
    )
    result: dict[str, Any] = {"exit": done.returncode}
    if done.returncode:
        return result | {"said": done.stderr.strip().replace(f"{folder}/", "")[:600]}
    events = [json.loads(line) for line in (out / "events-r0.jsonl").read_text().splitlines()]
    last = [event for event in events if event["kind"] == "eval"][-1]
    data = json.loads((out / "run.json").read_text())["data"]
    said = [
        line.strip()
        for line in (done.stdout + done.stderr).splitlines()
        if "taken of a row" in line
    ]
    return result | {
        "seconds": round(time.perf_counter() - began, 1),
        "rows": data["rows"],
        "step": last["step"],
        "loss": round(last["loss"], 4),
        "figures": {k: round(v, 4) for k, v in last["figures"].items() if v is not None},
        "taken": said[0] if said else None,
    }


if __name__ == "__main__":
    main()
