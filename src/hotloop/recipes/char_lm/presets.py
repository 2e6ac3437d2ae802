"""Presets of char-lm by GPU or experiment, with the reason for every value."""

from collections.abc import Mapping
from types import MappingProxyType

from hotloop.config.common import Preset
from hotloop.config.gpu_presets import efforts

__all__ = ["EFFORTS", "EXPERIMENTS", "PRESETS"]

# https://docs.nvidia.com/cuda/ampere-tuning-guide, 1.4.1.5 Improved Tensor Core Operations, 2026-11
_BF16 = "bf16 runs on tensor cores from sm80 on"
_BY_CAPABILITY = "bf16 from sm80 on, else fp16 with a scaler"


def _gpu_preset(memory: str, batch_size: int, precision: str, why: str) -> Preset:
    """Return the preset of a GPU; batch sizes come from the original project, unmeasured."""
    return Preset(
        source="rule",
        values={"training.batch_size": batch_size, "training.precision": precision},
        reasons={"training.batch_size": f"for {memory}, not measured", "training.precision": why},
    )


_CPU = Preset(
    source="rule",
    values={
        "model.layers": 4,
        "model.heads": 4,
        "model.width": 128,
        "model.context": 128,
        "model.dropout": 0.0,
        "training.batch_size": 32,
        "training.precision": "auto",
        "training.max_steps": 800,
        "training.warmup_steps": 80,
        "training.eval_every_steps": 200,
        "training.eval_batches": 40,
        "data.max_chars": 8_000_000,
    },
    reasons={
        "model.layers": "a smaller model: minutes on two cores, not hours",
        "model.heads": "a smaller model: 32 wide heads",
        "model.width": "a smaller model: minutes on two cores, not hours",
        "model.context": "a smaller model: half the context",
        "model.dropout": "too few steps to overfit",
        "training.batch_size": "a quarter of a GPU's work per step or less",
        "training.precision": "by capability: bf16 where the cores have it, never fp16",
        "training.max_steps": "minutes on two cores, not hours",
        "training.warmup_steps": "a tenth of the steps",
        "training.eval_every_steps": "four validations",
        "training.eval_batches": "163,840 characters: enough for two decimals, a second to read",
        "data.max_chars": "more text than the steps read is only waiting",
    },
)

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "t4": _gpu_preset("16 GB", 128, "fp16", "sm75 has no bf16: fp16 with a scaler"),
        "12gb": _gpu_preset("12 GB", 96, "auto", _BY_CAPABILITY),
        "16gb": _gpu_preset("16 GB", 128, "auto", _BY_CAPABILITY),
        "24gb": _gpu_preset("24 GB", 192, "auto", _BY_CAPABILITY),
        "rtx3090": _gpu_preset("24 GB", 192, "bf16", _BF16),
        "rtx4080s": _gpu_preset("16 GB", 128, "bf16", _BF16),
        "rtx4090": _gpu_preset("24 GB", 192, "bf16", _BF16),
        "h100": _gpu_preset("80 GB: twice the 24 GB batch", 384, "bf16", _BF16),
        "cpu": _CPU,
    }
)

EFFORTS = efforts(
    quick={
        "training.max_steps": (1250, "a quarter of the steps"),
        "training.eval_every_steps": (125, "ten validations"),
    },
    best={
        "training.max_steps": (10_000, "twice the steps"),
        "training.eval_every_steps": (500, "twenty validations"),
        "training.patience": (4, "ends where validations no longer improve"),
    },
)

_COMMAND = "the README's CPU command"
_FILE = "config/train_shakespeare_char.py"
_TRAIN = "the default of train.py"

# https://github.com/karpathy/nanoGPT, README "I only have a macbook", 2026-11: validation loss 1.88
_NANOGPT: Mapping[str, tuple[object, str]] = {
    "seed": (1337, _TRAIN),
    "model.layers": (4, _COMMAND),
    "model.heads": (4, _COMMAND),
    "model.width": (128, _COMMAND),
    "model.context": (64, _COMMAND),
    "model.dropout": (0.0, _COMMAND),
    "model.bias": (False, _TRAIN),
    "training.batch_size": (12, _COMMAND),
    "training.accumulation": (1, _FILE),
    "training.max_steps": (2000, _COMMAND),
    "training.learning_rate": (1e-3, _FILE),
    "training.min_learning_rate": (1e-4, _FILE),
    "training.eval_batches": (None, "not nanoGPT's 20 random batches: the whole validation part"),
    "training.schedule": ("cosine", _TRAIN),
    "training.warmup_steps": (100, _FILE),
    "training.weight_decay": (0.1, _TRAIN),
    "training.betas": ((0.9, 0.99), f"{_TRAIN} and {_FILE}"),
    "training.gradient_clip": (1.0, _TRAIN),
    "training.precision": ("fp32", "train.py uses no autocast on a CPU"),
    "training.use_compile": ("false", _COMMAND),
    "training.eval_every_steps": (250, _FILE),
    "data.max_chars": (None, "data/shakespeare_char/prepare.py reads the whole text"),
    "data.validation_share": (0.1, "data/shakespeare_char/prepare.py"),
}

EXPERIMENTS: Mapping[str, Preset] = MappingProxyType(
    {
        "nanogpt-cpu": Preset(
            source="published",
            values={key: value for key, (value, _) in _NANOGPT.items()},
            reasons={key: f"nanoGPT, {why}" for key, (_, why) in _NANOGPT.items()},
            sources={"training.eval_batches": "rule"},
        )
    }
)
