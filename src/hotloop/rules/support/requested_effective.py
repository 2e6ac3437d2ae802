"""Compare a requested setting with the one in effect in the process (rule C4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.case.case import Case

__all__ = ["NAMES", "in_effect"]

# topic -> its names in code and configurations
NAMES = {
    "accumulation": ("accumulation_steps", "grad_accum", "gradient_accumulation_steps"),
    "attention": ("attention_implementation", "attn_impl", "attn_implementation"),
    "batch size": ("batch_size", "micro_batch_size", "per_device_train_batch_size"),
    "checkpointing": ("activation_checkpointing", "gradient_checkpointing"),
    "compile": ("compile", "compile_model", "torch_compile", "use_compile"),
    "dtype": ("amp_dtype", "autocast_dtype", "dtype", "mixed_precision", "precision"),
    "bf16": ("bf16", "use_bf16"),
    "fused": ("fused", "use_fused"),
    "packing": ("packing", "use_packing"),
    "pinning": ("pin_memory",),
    "workers": ("dataloader_num_workers", "num_workers"),
}
_YES = {"1", "on", "true", "yes"}
_DTYPES = {
    "bf16": "bfloat16",
    "bf16-mixed": "bfloat16",
    "fp16": "float16",
    "half": "float16",
    "16-mixed": "float16",
    "fp32": "float32",
}


def in_effect(case: Case, topic: str, value: str) -> str | None:
    """Return what is in effect instead of `value`; None: the same, or unknown."""
    return _READ[topic](case, value.strip().lower())


def _accumulation(case: Case, value: str) -> str | None:
    backwards = case.steps.backwards
    if backwards is None or not value.isdigit() or case.steps.how != "optimizer":
        return None
    return None if round(backwards) == int(value) else f"{backwards:g} backward passes make a step"


def _attention(case: Case, value: str) -> str | None:
    used = [attention for model in case.models for attention in model.attention]
    effective = {attention.kind for attention in used} | {attention.kernel for attention in used}
    requested = "flash" if value.startswith("flash") else value
    if not used or requested not in {"eager", "flash", "flex", "sdpa"} or requested in effective:
        return None
    return f"attention runs as {', '.join(sorted({attention.kind for attention in used}))}"


def _batch_size(case: Case, value: str) -> str | None:
    sizes = {loader.batch_size for loader in case.loaders} - {None}
    if not value.isdigit() or not sizes or int(value) in sizes:
        return None
    if case.steps.samples is not None and round(case.steps.samples) == int(value):
        return None
    return f"the loaders have batch_size={', '.join(map(str, sorted(filter(None, sizes))))}"


def _bf16(case: Case, value: str) -> str | None:
    return _dtype(case, "bfloat16") if value in _YES else None


def _checkpointing(case: Case, value: str) -> str | None:
    if value not in _YES or not case.models or any(model.checkpointed for model in case.models):
        return None
    return "no model recomputes its activations"


def _compile(case: Case, value: str) -> str | None:
    if value not in _YES or not case.models or any(model.compiled for model in case.models):
        return None
    return None if case.process.graphs else "no model that was called is compiled"


def _dtype(case: Case, value: str) -> str | None:
    requested = _DTYPES.get(value, value.removeprefix("torch."))
    effective = {model.compute for model in case.models if model.role == "train"} - {None}
    if (
        requested not in {"bfloat16", "float16", "float32"}
        or not effective
        or requested in effective
    ):
        return None
    return f"products run in {', '.join(sorted(filter(None, effective)))}"


def _fused(case: Case, value: str) -> str | None:
    groups = [g for optimizer in case.optimizers if optimizer.steps for g in optimizer.groups]
    if value not in _YES or not groups or any(group.fused for group in groups):
        return None
    return "no parameter group is fused"


def _packing(case: Case, value: str) -> str | None:
    padding = [b.padding for b in case.batches if b.role == "train" and b.padding is not None]
    if value not in _YES or not padding or max(padding) < 0.2:  # D22's gate
        return None
    return f"{max(padding):.0%} of the positions are padding"


def _pinning(case: Case, value: str) -> str | None:
    loaders = case.training_loaders
    if value not in _YES or not case.on_gpu or not loaders:
        return None
    pinned = any(loader.pin_memory or loader.pinned for loader in loaders)
    return None if pinned else "no training loader pins its batches"


def _workers(case: Case, value: str) -> str | None:
    counts = {loader.workers for loader in case.loaders}
    if not value.isdigit() or not counts or int(value) in counts:
        return None
    return f"the loaders have num_workers={', '.join(map(str, sorted(counts)))}"


_READ: dict[str, Callable[[Case, str], str | None]] = {
    "accumulation": _accumulation,
    "attention": _attention,
    "batch size": _batch_size,
    "bf16": _bf16,
    "checkpointing": _checkpointing,
    "compile": _compile,
    "dtype": _dtype,
    "fused": _fused,
    "packing": _packing,
    "pinning": _pinning,
    "workers": _workers,
}
