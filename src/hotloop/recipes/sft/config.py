"""Configures chat-sft, which teaches a language model answers, and expert-sft.

expert-sft trains an adapter for each of some manifests, on packed rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from hotloop.config.common import AUTO, PRESET_MEANING, Training, check_shared
from hotloop.config.derive_plan import RequestedTechnique
from hotloop.config.resolver import Resolver
from hotloop.config.schema import idle, setting, setting_text
from hotloop.config.text_common import (
    IA3_RATE,
    NOT_PADDED,
    SFT_ALIASES,
    Adapter,
    check_adapter,
    field_aliases,
    idle_text,
    is_typed,
    rate_by_method,
)
from hotloop.recipes.sft.presets import SFT_EFFORTS, SFT_EXPERIMENTS, SFT_PRESETS

__all__ = [
    "SAID",
    "ExpertSftConfig",
    "SftAdapter",
    "SftConfig",
    "SftData",
    "SftModel",
    "check_sft",
    "idle_sft",
    "requested_of",
    "resolve_chat_sft",
    "resolve_expert_sft",
    "sft_training",
]

_NOTHING: Mapping[str, str] = MappingProxyType({})
# The default of TRL's SFTConfig: https://huggingface.co/docs/trl/sft_trainer (1.16, 2026-11). Not
# measured here, as no model of a usual size trains on our machines.
_WHOLE_RATE = 2e-5
_PARTS = ("messages", "prompt", "response", "instruction", "input", "output", "instances", "text")
SAID = MappingProxyType(  # option of `hotloop data` -> what a user of the recipe types instead
    {
        "--bad skip": "data.bad=skip",
        "--template": "data.template",
        "--template chatml": "data.template=chatml",
        "leave --pack out": "data.packing=false",
        "--max-length": "data.max_length",
        "--pack": "data.packing=true",
        "--loss": "data.loss",
        "--loss completion": "data.loss=answers",
        "--ignore": "data.ignore",
        **{f"--fields {part}": f"data.{part}=KEY" for part in _PARTS},
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SftModel:
    """A pretrained language model, and the kernels that compute it."""

    name: str | None = setting(None, "folder or hub id of the pretrained model")
    attention: Literal["auto", "naive"] = setting(
        "auto", "auto: the fastest kernel there is; naive: written out, as a comparison"
    )
    tf32: bool | None = setting(None, "TF32 in float32 products; null: where the GPU has it")
    checkpointing: Literal["off", "selective", "full"] = setting(
        "off", "compute activations twice to save memory"
    )
    cross_entropy: Literal["auto", "whole", "fused"] = setting(
        "auto", "fused: logits are made in parts; auto: where all of them take over 256 MiB"
    )
    label_smoothing: float = setting(
        0.0, "share of the target that all tokens have alike", low=0, high=1
    )
    z_loss: float = setting(
        0.0, "times the square of the log of the softmax's sum, added to the loss", low=0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SftData:
    """Rows with answers; null finds the usual names of keys."""

    path: str | None = setting(None, "file or folder of rows to train on")
    valid_path: str | None = setting(None, "rows to validate on; null holds some of path out")
    validation_share: float = setting(
        0.1, "share of the rows held out", low=0, low_open=True, high=0.5
    )
    cache: str | None = setting(
        None, "folder of hotloop data tokenize; others than wanted are left, and new ones made"
    )
    messages: str | None = setting(None, "key of the messages of a chat")
    prompt: str | None = setting(None, "key of the question")
    response: str | None = setting(None, "key of the answer")
    instruction: str | None = setting(None, "key of the instruction")
    input: str | None = setting(None, "key of the instruction's input")
    output: str | None = setting(None, "key of the instruction's answer")
    instances: str | None = setting(None, "key of an instruction's inputs and outputs")
    text: str | None = setting(None, "key of plain text, all of which is learned")
    ignore: str | None = setting(
        None, "keys beside plain text that look like answers and are not, with commas between"
    )
    template: Literal["auto", "tokenizer", "chatml", "alpaca"] = setting(
        "auto", "chat template; auto: for chats the tokenizer's own, else chatml; for prompts none"
    )
    loss: Literal["auto", "answers", "all"] = setting(
        "auto", "what carries loss; auto: answers, where keys name them; of texts, all"
    )
    max_length: int = setting(1024, "tokens of a row; what is longer is cut off", low=2)
    packing: bool = setting(False, "several texts in one row of max_length, kept apart")
    group_by_length: bool = setting(
        False, "rows of like length come together: it may cost quality (docs/defaults.md)"
    )
    layout: Literal["auto", "flat", "padded"] = setting(
        "flat", "batches without padding, or padded to their longest row; auto: by the padding"
    )
    pad_to_multiple_of: int = setting(
        8, "widths of padded batches are multiples of it, as matrix units like them", low=1
    )
    bad: Literal["stop", "skip"] = setting("stop", "what to do at a row that cannot be used")
    drop_last: bool = setting(False, "leave out an epoch's last, smaller batch")
    num_workers: int = setting(0, "loader processes", low=0)

    @property
    def fields(self) -> dict[str, str]:
        """Return the configured keys of the rows, by their role."""
        return {part: key for part in _PARTS if (key := getattr(self, part)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class SftAdapter(Adapter):
    """Adapters, on frozen weights that may be packed to 4 bits (QLoRA)."""

    method: Literal["none", "lora", "dora", "ia3"] = setting("lora", "adapters, or all weights")
    quantization: Literal["none", "nf4"] = setting(
        "none", "nf4: frozen weights in 4 bits, by bitsandbytes"
    )


def sft_training(**more: Any) -> Training:
    """Return the default training settings of fine-tuning, overridden by `more`."""
    usual = {
        "epochs": 3,
        "batch_size": 16,
        "learning_rate": 2e-4,
        "min_learning_rate": 0.0,
        "warmup_steps": 0,
        "warmup_share": 0.03,
        "weight_decay": 0.0,
        "betas": (0.9, 0.999),
        "eval_every_steps": None,
        "eval_every_epochs": 1,
    }
    return Training(**{**usual, **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class SftConfig:
    """Everything that decides a run, but for the machine."""

    seed: int = setting(1337, "of adapters, order and dropout", low=0, high=2**32 - 1)
    init_from: str | None = setting(None, "what an earlier run learned: a run or .safetensors")
    training: Training = field(default_factory=sft_training)
    data: SftData = field(default_factory=SftData)
    model: SftModel = field(default_factory=SftModel)
    adapter: SftAdapter = field(default_factory=SftAdapter)
    preset: str = setting(AUTO, PRESET_MEANING, choices=(AUTO, *SFT_PRESETS, *SFT_EFFORTS))
    experiment: str | None = setting(None, "values of a known experiment", choices=SFT_EXPERIMENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertSftConfig(SftConfig):
    """Everything that decides an expert-sft run, but for the machine."""

    manifest: str | None = setting(
        None, "manifest of the expert, axolotl's or the Trainer's file; several with commas between"
    )
    ignore: str | None = setting(None, "keys of the manifest to do without, with commas between")
    output: str | None = setting(None, "folder of the run; {model} is the expert's name")
    data: SftData = field(default_factory=lambda: SftData(packing=True, max_length=2048))


def check_sft(config: SftConfig, origins: Mapping[str, str] = _NOTHING) -> None:
    """Raise ConfigError for settings that contradict each other, one line for each."""
    problems = check_adapter(config, config.adapter, origins)

    def both(first: str, second: str, why: str) -> None:
        pair = (setting_text(config, key, origins) for key in (first, second))
        problems.append(f"{' and '.join(pair)}: {why}")

    if config.model.name is None:
        problems.append("model.name is missing: a folder of a pretrained model, or its hub id")
    if config.data.path is None:
        problems.append("data.path is missing: a file or folder of rows with answers")
    if config.adapter.quantization != "none" and config.adapter.method == "none":
        both(
            "adapter.quantization",
            "adapter.method",
            "4-bit weights are frozen, so without an adapter nothing is trained",
        )
    check_shared(config, origins, problems)


def idle_sft(config: SftConfig, origins: Mapping[str, str]) -> dict[str, str]:
    """Return, by key, the reason why a non-default setting has no effect."""
    data = config.data
    whys = idle_text(config.adapter)
    if data.valid_path is not None:
        whys["data.validation_share"] = "has no effect with data.valid_path"
    if data.packing:
        whys["data.group_by_length"] = "has no effect: packed rows are of one length"
        if is_typed(origins, "data.layout"):
            whys["data.layout"] = "has no effect: packed rows have next to no padding"
    elif data.layout == "flat" and is_typed(origins, "data.pad_to_multiple_of"):
        whys["data.pad_to_multiple_of"] = NOT_PADDED
    return idle(config, origins, whys)


def requested_of(config: SftConfig) -> dict[str, RequestedTechnique]:
    """Return, by id, the techniques that the settings request or exclude."""
    requested = dict[str, RequestedTechnique]()
    if config.model.checkpointing != "off":
        mode = {"mode": config.model.checkpointing}
        requested["activation-checkpointing"] = RequestedTechnique(
            key="model.checkpointing", choice=mode
        )
    if config.model.tf32 is not None:
        requested["tf32"] = RequestedTechnique(key="model.tf32", is_wanted=config.model.tf32)
    return requested


resolve_chat_sft = Resolver(
    schema=SftConfig,
    aliases={**SFT_ALIASES, **field_aliases(_PARTS)},
    presets=SFT_PRESETS,
    efforts=SFT_EFFORTS,
    experiments=SFT_EXPERIMENTS,
    check=check_sft,
    derived=rate_by_method({"none": _WHOLE_RATE, "ia3": IA3_RATE}),
)
resolve_expert_sft = replace(resolve_chat_sft, schema=ExpertSftConfig)
