"""Which models fit which card, by themselves: the plan that `preset=auto` takes, forecast and held
to torch's own allocator on a null card.

HOTLOOP_NULLCARD_PYTHON=... python -m benchmarks.large_models [TEXT ...]

Models are built on the meta device from their published sizes, so the host needs no memory for
their weights. Rows are as long as `length`; two optimizer steps of the widest micro batches are
made (benchmarks.allocator_peaks). A GPU's context and cuBLAS's workspaces are in neither figure.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.nullcard.programs import NullCardError, python, run
from tests.preloaded import Preloaded

from benchmarks.preset_forecasts import MODEL
from hotloop.nullcard.build import build

__all__ = ["PAGE"]

PAGE = Path(__file__).parent / "results" / "large-models.json"
GIB = 1 << 30
# https://huggingface.co/Qwen/Qwen3-8B/blob/main/config.json and those of its sizes, 2026-11
_QWEN3_8B = {"hidden_size": 4096, "intermediate_size": 12_288, "num_hidden_layers": 36}
_QWEN3_8B |= {"num_attention_heads": 32, "tie_word_embeddings": False}
_QWEN3_4B = {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36}
_QWEN3_4B |= {"num_attention_heads": 32}
_QWEN3_1B = {"hidden_size": 2048, "intermediate_size": 6144}
# https://huggingface.co/google/gemma-3-1b-pt/blob/main/config.json, 2026-11
_GEMMA3_1B: dict[str, Any] = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "hidden_size": 1152,
    "intermediate_size": 6912,
    "num_hidden_layers": 26,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "vocab_size": 262_144,
    "max_position_embeddings": 32_768,
    "sliding_window": 512,
    "_sliding_window_pattern": 6,
    "query_pre_attn_scalar": 256,
    "tie_word_embeddings": True,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model, what is trained of it, and the card."""

    model: str
    sizes: dict[str, Any]
    recipe: str
    card: str
    memory: int | None = None  # MiB, where it is not the card's own
    length: int = 1024  # tokens of a row
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the case in words."""
        return f"{self.model}, {self.recipe} {' '.join(self.settings)}".strip()


LORA, FULL = ("adapter.method=lora",), ("adapter.method=none",)
CASES = (
    Case(
        model="Qwen3-8B",
        sizes=MODEL | _QWEN3_8B,
        recipe="expert-sft",
        settings=LORA,
        card="rtx4090",
    ),
    Case(
        model="Qwen3-4B",
        sizes=MODEL | _QWEN3_4B,
        recipe="expert-sft",
        settings=LORA,
        card="rtx4080s",
    ),
    Case(
        model="Qwen3-1.7B",
        sizes=MODEL | _QWEN3_1B,
        recipe="expert-sft",
        settings=LORA,
        card="rtx4090",
        memory=11_900,
    ),
    Case(
        model="Qwen3-4B, long rows",
        sizes=MODEL | _QWEN3_4B,
        recipe="expert-sft",
        settings=LORA,
        length=16_384,
        card="rtx4080s",
    ),
    Case(
        model="Gemma-3-1B",
        sizes=_GEMMA3_1B,
        recipe="pair-classifier",
        settings=("adapter.method=dora",),
        length=256,
        card="t4",
    ),
    Case(
        model="Qwen3-4B",
        sizes=MODEL | _QWEN3_4B,
        recipe="chat-sft",
        settings=FULL,
        card="rtx4090",
    ),
    Case(
        model="Qwen3-1.7B",
        sizes=MODEL | _QWEN3_1B,
        recipe="chat-sft",
        settings=FULL,
        card="rtx4090",
        memory=11_900,
    ),
)
SCRIPT = """
from benchmarks.large_models import measured
facts |= measured({name!r}, {card!r}, {folder!r})
"""


def measured(name: str, card: str, folder: str) -> dict[str, Any]:
    """Return the plan of a case, its forecast, and the allocator's peaks if it is to fit."""
    from benchmarks.allocator_peaks import peaks
    from hotloop.jobs.decide import decide
    from hotloop.jobs.job import prepare_data
    from hotloop.jobs.request import fresh_request
    from hotloop.jobs.train import silent
    from hotloop.machine.detect import detect
    from hotloop.session.accumulation_windows import AccumulationWindows
    from hotloop.session.ranks import SINGLE_PROCESS

    case = next(case for case in CASES if (case.name, case.card) == (name, card))
    place = Path(folder)
    words = [f"model.name={place / 'model'}", f"data.path={place / 'rows.jsonl'}", "preset=auto"]
    words += [f"data.max_length={case.length}", *case.settings]
    request, hardware = fresh_request(case.recipe, words), detect("cuda")
    job = request.recipe.load().build(request.config, prepare_data(request, silent, None))
    training = request.config.training
    feed = AccumulationWindows(samples=job.train, batch_size=training.batch_size, drop_last=True)
    decision = decide(request, job, feed, hardware, steps=100, ranks=SINGLE_PROCESS, notify=silent)
    plan, forecast = decision.plan, decision.forecast
    found: dict[str, Any] = {
        "micro_batch": plan.micro_batch,
        "accumulation": plan.accumulation,
        "techniques": [str(use) for use in plan.techniques],
        "parameters": forecast.parameters,
        "forecast_bytes": forecast.peak_bytes,
        "memory_bytes": hardware.memory_bytes,
        "fits": decision.too_much is None,
    }
    if found["fits"]:
        found |= peaks(job, plan, hardware, clip=training.gradient_clip)
    found["host_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return found


def main(wanted: list[str]) -> None:
    """Measure the cases whose name has one of the texts, or all; the others stay."""
    from benchmarks.preset_forecasts import write_inputs

    there = json.loads(PAGE.read_text())["rows"] if PAGE.is_file() else []
    env = {**os.environ, "LD_PRELOAD": str(build())}
    with Preloaded("transformers", python=python(), env=env) as process:
        for case in CASES:
            if wanted and not any(text in case.name for text in wanted):
                continue
            row: dict[str, Any] = {"name": case.name, "card": case.card, "length": case.length}
            with tempfile.TemporaryDirectory() as folder:
                kind = "pair" if case.recipe == "pair-classifier" else "prompt"
                write_inputs(Path(folder), kind, case.length, model=case.sizes)
                script = SCRIPT.format(name=case.name, card=case.card, folder=folder)
                try:
                    row |= run(case.card, script, memory=case.memory, process=process).facts
                except NullCardError as error:
                    row["failed"] = str(error).strip().splitlines()[-1][:200]
            print(_line(row), flush=True)
            there = [r for r in there if (r["name"], r["card"]) != (case.name, case.card)] + [row]
            PAGE.write_text(json.dumps({"rows": there}, indent=1) + "\n")


def _line(row: dict[str, Any]) -> str:
    start = f"{row['name']:48} {row['card']:9}"
    if "failed" in row:
        return f"{start} {row['failed']}"
    size, forecast = row["memory_bytes"] / GIB, row["forecast_bytes"]
    start += f" {size:5.1f} GiB  {row['micro_batch']:3} x {row['accumulation']:3}"
    start += f"  forecast {forecast / GIB:6.2f}"
    if not row["fits"]:
        return f"{start}  does not fit"
    reserved = row["reserved_bytes"]
    recomputing = [use for use in row["techniques"] if use.startswith("activation")]
    return (
        f"{start}  tensors {row['tensors_bytes'] / GIB:6.2f}  reserved {reserved / GIB:6.2f}"
        f"  {forecast / reserved - 1:+.1%}  {' '.join(recomputing)}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
