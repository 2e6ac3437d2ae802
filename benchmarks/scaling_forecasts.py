"""Forecasts the bytes of a token's activations by memory_forecast, on tensors without numbers.

The forecast of a model without its head at two sizes of the micro batch gives the bytes a token;
weights, gradients, their copies and logits are counted by scaling_paper.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import torch

from benchmarks.preset_forecasts import PAGE
from hotloop.jobs.forecast.memory_forecast import forecast
from hotloop.session.batch import Batch
from hotloop.techniques.activation_checkpointing import change

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor, nn

    from benchmarks.scaling_paper import Model
    from hotloop.session.job import Job

__all__ = ["bytes_a_token", "logits_bytes", "lora_bytes_a_token"]

SMALL, LARGE = 2, 4  # micro batches


class _Probe:
    """As much of a Job as a forecast reads."""

    name, vocabulary = "probe", 0

    def __init__(self, model: Callable[[], nn.Module], context: int) -> None:
        self.model, self._context = model, context

    def widest(self, samples: int) -> Batch:
        """Return rows of the whole context."""
        tokens = torch.zeros(samples, self._context, dtype=torch.long)
        size = tokens.numel()
        return Batch(tensors={"x": tokens}, samples=samples, tokens=size, targets=size)

    def loss(self, model: nn.Module, batch: dict[str, Any]) -> Tensor:
        """Return a number that every activation leads to."""
        out = model(batch["x"])
        hidden = getattr(out, "last_hidden_state", out)
        return cast("Tensor", hidden.sum())

    def state_bytes(self, parameter: Tensor) -> int:
        """Return AdamW's two numbers."""
        return 2 * parameter.nbytes


def bytes_a_token(model: Model, context: int) -> float:
    """Return the bytes that one token keeps for the backward under autocast to bf16 on a GPU."""
    probe = _Probe(lambda: _built(model, context), context)
    found = [
        forecast(
            cast("Job", probe),
            micro_batch=samples,
            precision="bf16",
            device="cuda",
            accumulation=2,  # gradients are there from the start
        ).activations_bytes
        for samples in (SMALL, LARGE)
    ]
    return (found[1] - found[0]) / ((LARGE - SMALL) * context)


def _built(model: Model, context: int) -> nn.Module:
    if model.matrices == 2:
        from hotloop.models.gpt import Gpt

        return Gpt(
            vocabulary=model.vocabulary,
            layers=model.layers,
            heads=model.heads,
            width=model.width,
            context=context,
            dropout=0.0,
            bias=False,
        )
    from transformers import LlamaConfig, LlamaModel, Qwen3Config, Qwen3Model

    kind, config = (Qwen3Model, Qwen3Config) if model.tied else (LlamaModel, LlamaConfig)
    built = kind._from_config(  # type: ignore[no-untyped-call]
        config(
            hidden_size=model.width,
            intermediate_size=model.inner,
            num_hidden_layers=model.layers,
            num_attention_heads=model.heads,
            num_key_value_heads=model.kv_heads,
            head_dim=model.head_width,
            vocab_size=model.vocabulary,
            max_position_embeddings=context,
            use_cache=False,
        ),
        attn_implementation="sdpa",
    )
    if model.recompute:
        change(built, mode="full")
    return cast("nn.Module", built)


def lora_bytes_a_token() -> float:
    """Return those of chat-sft with LoRA from benchmarks/results/preset-forecasts.json."""
    small, large = _lora("rtx4090"), _lora("h100")
    tokens = (large["micro_batch"] - small["micro_batch"]) * large["length"]
    gap = large["parts"]["activations"] - small["parts"]["activations"]
    return float(gap / tokens)


def logits_bytes() -> float:
    """Return what logits take in the recipes on texts: they are made a part at a time."""
    return float(_lora("h100")["parts"]["logits"])


def _lora(preset: str) -> dict[str, Any]:
    rows = json.loads(PAGE.read_text())["forecasts"]
    found = (row for row in rows if (row["recipe"], row["preset"]) == ("chat-sft", preset))
    return cast("dict[str, Any]", next(found))
