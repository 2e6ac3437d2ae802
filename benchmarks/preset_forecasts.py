"""Forecasts the memory of every preset of the recipes on pretrained models; no GPU is needed.

python -m benchmarks.preset_forecasts [RECIPE ...]

The model has the sizes of Qwen3-0.6B (config.json on the hub, 2026-11: 28 layers x 1024, 151,936
ids), every row has as many tokens as the preset allows, adapters are the defaults of LoRA (DoRA for
pair-classifier). Nothing is run and no weight read: operators are traced on tensors without
numbers, for a GPU that the presets' own name or size of memory stands for. Of task-router it is
phase 1, with four tasks.
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.recipe_data import Lengths, Texts, tokenizer
from hotloop.core.hardware import Hardware
from hotloop.jobs.decide import requested
from hotloop.jobs.forecast import limits
from hotloop.jobs.forecast.memory_fit import Forecasts, shapes
from hotloop.jobs.job import prepare_data
from hotloop.jobs.request import fresh_request
from hotloop.jobs.train import silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["MODEL", "PAGE", "forecasts", "write_inputs"]

PAGE = Path(__file__).parent / "results" / "preset-forecasts.json"
GIB = 1 << 30
ROWS = 512  # more than a batch of any preset
MODEL: dict[str, Any] = {  # https://huggingface.co/Qwen/Qwen3-0.6B/blob/main/config.json, 2026-11
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151_936,
    "max_position_embeddings": 40_960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000,
    "hidden_act": "silu",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": True,
    "eos_token_id": 3,
    "pad_token_id": 0,
    "bos_token_id": None,
    "initializer_range": 0.02,
}
# The GPUs: what the driver leaves of a memory of that name is a little less.
GPUS: dict[str, tuple[str, int, tuple[int, int]]] = {
    "t4": ("Tesla T4", 16, (7, 5)),
    "12gb": ("NVIDIA GeForce RTX 4070", 12, (8, 9)),
    "16gb": ("NVIDIA GeForce RTX 4080", 16, (8, 9)),
    "24gb": ("NVIDIA GeForce RTX 4090", 24, (8, 9)),
    "rtx3090": ("NVIDIA GeForce RTX 3090", 24, (8, 6)),
    "rtx4080s": ("NVIDIA GeForce RTX 4080 SUPER", 16, (8, 9)),
    "rtx4090": ("NVIDIA GeForce RTX 4090", 24, (8, 9)),
    "h100": ("NVIDIA H100 80GB HBM3", 80, (9, 0)),
}
LEFT = 0.97  # of the memory by name
RECIPES = {
    "pair-classifier": ("pair", 256, ("adapter.method=dora",)),
    "chat-sft": ("prompt", 1024, ()),
    "expert-sft": ("prompt", 1024, ()),
    "task-router": ("prompt", 256, ("phase=1", "adapter.rank=16")),
}
# Keys of the rows of tasks, in place of prompt and response.
TASKS = {
    "sentiment": ("text", "label"),
    "summaries": ("source", "target"),
    "code": ("text", "code"),
    "translation": ("source", "target"),
}


def machine(preset: str) -> Hardware:
    """Return the GPU of a preset."""
    name, memory, capability = GPUS[preset]
    return Hardware(
        device="cuda", name=name, memory_bytes=int(LEFT * memory * GIB), capability=capability
    )


def write_inputs(folder: Path, kind: str, length: int, *, model: Mapping[str, Any] = MODEL) -> None:
    """Write rows of one length, and a model of some sizes without numbers."""
    tokenizer(folder / "model", kind, 2048)
    (folder / "model" / "config.json").write_text(json.dumps(model))
    _empty_weights(folder / "model" / "model.safetensors", model)
    texts = Texts(
        kind=kind, lengths=Lengths(median=length, sigma=0.0, low=length, high=length), rows=ROWS
    )
    rows = (json.dumps(row) + "\n" for row in texts.made(2048, seed=1))
    text = "".join(rows)
    (folder / "rows.jsonl").write_text(text)
    for task, (asked, answer) in TASKS.items() if kind == "prompt" else ():
        own = text.replace('"prompt":', f'"{asked}":').replace('"response":', f'"{answer}":')
        (folder / f"{task}.jsonl").write_text(own)


def _empty_weights(path: Path, model: Mapping[str, Any]) -> None:
    """Write what is read of the weights, their names and shapes; the file has holes for numbers."""
    import transformers

    kind = getattr(transformers, model["architectures"][0])
    with torch.device("meta"):
        state = kind(kind.config_class(**model)).state_dict()
    if model["tie_word_embeddings"]:
        state.pop("lm_head.weight")
    header, end = dict[str, Any](), 0
    for name, tensor in state.items():
        begin, end = end, end + 2 * tensor.numel()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def forecasts(recipe: str, presets: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield what each preset of a recipe needs on its GPU."""
    kind, length, settings = RECIPES[recipe]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_inputs(folder, kind, length)
        for preset in presets:
            hardware = machine(preset)
            request = fresh_request(
                recipe,
                (
                    f"preset={preset}",
                    f"model.name={folder / 'model'}",
                    f"data.path={folder if recipe == 'task-router' else folder / 'rows.jsonl'}",
                    f"data.max_length={length}",
                    *settings,
                ),
            )
            job = request.recipe.load().build(request.config, prepare_data(request, silent, None))
            plan = requested(request, hardware, steps=100, ranks=1).plan
            found = Forecasts(job, hardware, shapes(request.config, job)).of(plan)
            fits = limits.memory_sentence(found, hardware)[1]
            yield {
                "recipe": recipe,
                "preset": preset,
                "gpu": hardware.name,
                "memory_bytes": hardware.memory_bytes,
                "length": length,
                "settings": list(settings),
                "micro_batch": plan.micro_batch,
                "batch": plan.micro_batch * plan.accumulation,
                "techniques": [str(use) for use in plan.techniques],
                "peak_bytes": found.peak_bytes,
                "parts": limits.budget(found),
                "fits": fits,
            }


def main(names: Sequence[str]) -> None:
    """Write the forecasts of some recipes, or of all; those of others stay."""
    before = json.loads(PAGE.read_text())["forecasts"] if PAGE.is_file() else []
    wanted = tuple(names) or tuple(RECIPES)
    made = [row for row in before if row["recipe"] not in wanted]
    for recipe in wanted:
        for row in forecasts(recipe, tuple(GPUS)):
            print(
                recipe,
                row["preset"],
                f"{row['peak_bytes'] / GIB:.1f} GiB",
                row["micro_batch"],
                row["fits"],
            )
            made.append(row)
    record = {"torch": torch.__version__, "model": MODEL, "forecasts": made}
    PAGE.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
