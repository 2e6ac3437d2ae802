"""The fields of an expert's manifest: names, spellings, types, ranges, and their JSON schema.

Spellings are those of transformers' TrainingArguments, TRL, PEFT and axolotl (2026-11).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from hotloop.config.schema import FieldRule, convert, expected, show
from hotloop.core.errors import ConfigError

__all__ = ["FIELDS", "OPTIMIZERS", "SPELLINGS", "TEMPLATES", "Field", "schema", "schema_text"]

_LIMIT = 2**63 - 1  # what an int64 holds
# What values.convert takes as text; the end is written out because Python's $ allows a line break.
_TEXT = r"^(?![\s\S]*\$\{)[^\u0000-\u001f\u007f\ud800-\udfff]+(?![\s\S])"
_NAME = (
    r"^(?![\s\S]*\$\{)[^,\u0000-\u001f\u007f\ud800-\udfff]+(?![\s\S])"  # one of many has no comma
)
_KINDS = MappingProxyType({int: "integer", float: "number", bool: "boolean", str: "string"})
_FUSED, _8BIT = "adamw_torch_fused", "adamw_8bit"
_UNPAGED = "not paged: what is needed is forecast before step 1"

# name in transformers -> name here, and how it differs from the request
OPTIMIZERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "adamw_torch_fused": (_FUSED, ""),
        "adamw_torch": (_FUSED, "the same update in one kernel"),
        "adamw_hf": (_FUSED, "transformers dropped its own; the same update in one kernel"),
        "adamw": (_FUSED, "the same update in one kernel"),
        "paged_adamw_32bit": (_FUSED, _UNPAGED),
        "adamw_8bit": (_8BIT, ""),
        "adamw_bnb_8bit": (_8BIT, "hotloop's own, not that of bitsandbytes"),
        "adamw_torch_8bit": (_8BIT, "hotloop's own, not that of torchao"),
        "paged_adamw_8bit": (_8BIT, _UNPAGED),
        "adafactor": ("adafactor", ""),
    }
)


# chat_template -> data.template
TEMPLATES: Mapping[str, str] = MappingProxyType(
    {"chatml": "chatml", "alpaca": "alpaca", "tokenizer_default": "tokenizer", "auto": "auto"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a manifest. Every field may be null, which keeps the recipe's default."""

    name: str
    kind: type  # int, float, bool or str
    rule: FieldRule  # the meaning, range and choices
    aliases: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()  # the settings it can become; empty: it has no effect
    words: tuple[str, ...] = ()  # allowed besides true and false
    is_list: bool = False  # whether a list of texts is allowed, too
    advice: str = ""  # what to do where a value is refused

    def read(self, raw: object) -> object:
        """Return a JSON value converted to the field's type; a list becomes text with commas.

        Raises ConfigError "expected ..., got ...; what to do".
        """
        if raw is None or (isinstance(raw, str) and raw in self.words):
            return raw
        if self.is_list and isinstance(raw, list):
            return self._joined(raw)
        if self.kind is int and type(raw) is float and raw.is_integer():
            raw = int(raw)  # JSON has one kind of number: 8.0 is 8
        try:
            return convert(self.kind, self.rule, raw)
        except ConfigError as error:
            words = "".join(f" or {word}" for word in self.words)
            text = str(error).replace(
                ", got ", f"{words}{' or a list of names' * self.is_list}, got ", 1
            )
            raise ConfigError(f"{text}{self.advice and f'; {self.advice}'}") from error

    def _joined(self, raw: list[object]) -> str:
        if not raw or not all(isinstance(name, str) and "," not in name for name in raw):
            kind = expected(self.kind, self.rule)
            raise ConfigError(f"expected {kind} or a list of names, got {show(raw)}; {self.advice}")
        return ",".join(str(convert(str, self.rule, name)) for name in raw)

    def schema(self) -> dict[str, object]:
        """Return the JSON schema of the field."""
        kinds = [_KINDS[self.kind], *["array"] * self.is_list, "null"]
        schema: dict[str, object] = {"description": self.rule.meaning, "type": kinds}
        if self.words:  # of true and false only: another kind would need more than a list
            schema = {"description": self.rule.meaning, "enum": [True, False, *self.words, None]}
        elif self.rule.choices:
            schema["enum"] = [*self.rule.choices, None]
        elif self.kind is str:
            schema |= {"pattern": _TEXT}
        if self.is_list:
            schema |= {"items": {"type": "string", "pattern": _NAME}, "minItems": 1}
        if self.kind is int:
            schema["maximum"] = _LIMIT
        low = (self.rule.low, self.rule.low_open, "Minimum")
        high = (self.rule.high, self.rule.high_open, "Maximum")
        for end, is_open, bound in (low, high):
            if end is not None:
                schema[f"exclusive{bound}" if is_open else bound.lower()] = end
        return schema


def _field(
    name: str,
    kind: type,
    meaning: str,
    *targets: str,
    aliases: str = "",
    words: tuple[str, ...] = (),
    is_list: bool = False,
    advice: str = "",
    **limits: Any,  # of FieldRule
) -> Field:
    return Field(
        name=name,
        kind=kind,
        rule=FieldRule(meaning=meaning, **limits),
        aliases=tuple(aliases.split()),
        targets=targets,
        words=words,
        is_list=is_list,
        advice=advice,
    )


_PLACED = "relative to the manifest"
_WORKERS = "nothing: batches are cut from a memory-mapped file"
_TABLE: Final = (
    _field("$schema", str, "where an editor finds this schema"),
    _field("name", str, "the expert's name; else the manifest's file name",
           aliases="expert expert_name expert-name"),
    _field("description", str, "for readers"),
    _field("model", str, "model folder or hub id", "model.name",
           aliases="base_model model_name model_name_or_path base_model_name_or_path"),
    _field("data", str, f"file or folder to train on, {_PLACED}", "data.path",
           aliases="train_file dataset dataset_path data_path train_data"),
    _field("valid_data", str, f"file to validate on, {_PLACED}", "data.valid_path",
           aliases="validation_file valid_file val_file eval_file eval_data valid_path"),
    _field("prompt_column", str, "key of the question", "data.prompt",
           aliases="question_column prompt_field prompt_key"),
    _field("response_column", str, "key of the answer", "data.response",
           aliases="answer_column response_field response_key completion_column"),
    _field("instruction_column", str, "key of the instruction", "data.instruction"),
    _field("input_column", str, "key of the instruction's input", "data.input"),
    _field("output_column", str, "key of the instruction's answer", "data.output"),
    _field("messages_column", str, "key of the messages of a chat", "data.messages"),
    _field("text_column", str, "key of plain text", "data.text"),
    _field("chat_template", str, "how messages become a text", "data.template",
           choices=tuple(TEMPLATES), aliases="prompt_template",
           advice="others are read from the model's folder: put the template into its"
           " chat_template.jinja, and write tokenizer_default"),
    _field("loss", str, "what carries loss", "data.loss", choices=("answers", "all")),
    _field("validation_share", float, "share of the rows held out", "data.validation_share",
           low=0, high=0.5, aliases="val_set_size",
           advice="write a share of the rows, or name a file to validate on"),
    _field("drop_last", bool, "an epoch's last, smaller batch is left out", "data.drop_last",
           aliases="dataloader_drop_last"),
    _field("seed", int, "of adapters, order and dropout", "seed", low=0, high=2**32 - 1),
    _field("pretokenized_cache", str, f"folder of packed tokens, {_PLACED}", "data.cache",
           aliases="dataset_prepared_path tokenized_path"),
    _field("batch_size", int, "samples in a micro batch", "training.batch_size",
           "training.accumulation", low=1,
           aliases="per_device_train_batch_size micro_batch_size train_batch_size"),
    _field("gradient_accumulation_steps", int, "micro batches in one optimizer step",
           "training.accumulation", low=1, aliases="grad_accum_steps accumulation"),
    _field("max_seq_length", int, "longest row in tokens", "data.max_length", low=1,
           aliases="max_length sequence_len max_seq_len model_max_length cutoff_len block_size"),
    _field("dataloader_num_workers", int, _WORKERS, low=0, aliases="num_workers"),
    _field("dataloader_prefetch_factor", int, _WORKERS, low=0, aliases="prefetch_factor"),
    _field("dataloader_persistent_workers", bool, _WORKERS, aliases="persistent_workers"),
    _field("dataloader_pin_memory", bool, "nothing: pinned where there is CUDA",
           aliases="pin_memory"),
    _field("fp16", bool, "compute in fp16, with a scaler", "training.precision"),
    _field("bf16", bool, "compute in bf16", "training.precision", words=("auto",)),
    _field("use_tf32", bool, "TF32 in fp32 matrix products", "model.tf32",
           aliases="tf32 allow_tf32"),
    _field("use_sdpa", bool, "fused attention", "model.attention",
           aliases="sdpa sdp_attention"),
    _field("optim", str, "what updates the weights", "training.optim", choices=tuple(OPTIMIZERS),
           aliases="optimizer", advice="others of transformers are not offered"),
    _field("group_by_length", bool, "batches of rows of like length", "data.group_by_length",
           "data.packing"),
    _field("packing", bool, "several rows in one, kept apart", "data.packing",
           aliases="sample_packing"),
    _field("gradient_checkpointing", bool, "activations computed twice, not kept",
           "model.checkpointing"),
    _field("torch_compile", bool, "torch.compile per block", "training.use_compile",
           aliases="use_torch_compile use_compile"),
    _field("adapter_type", str, "what is trained", "adapter.method", "adapter.quantization",
           choices=("lora", "dora", "qlora", "ia3", "none", "full"),
           aliases="adapter peft_type finetuning_type"),
    _field("rank", int, "rank of the adapters", "adapter.rank", low=1,
           aliases="r lora_r lora_rank"),
    _field("alpha", float, "adapters count alpha / rank", "adapter.alpha", low=0, low_open=True,
           aliases="lora_alpha"),
    _field("target_modules", str, "layers with adapters", "adapter.targets", is_list=True,
           aliases="lora_target_modules lora_target",
           advice='write names such as ["q_proj", "v_proj"], or "all-linear"'),
    _field("dropout", float, "share of the adapters' inputs dropped", "adapter.dropout", low=0,
           high=1, high_open=True, aliases="lora_dropout"),
    _field("quantization", str, "bits of the frozen weights", "adapter.quantization",
           choices=("none", "nf4", "4bit", "4-bit", "int4"),
           advice="8-bit and fp4 weights are not offered: nf4 (QLoRA), or none"),
    _field("load_in_4bit", bool, "quantization nf4", "adapter.quantization"),
    _field("load_in_8bit", bool, "not offered, so false"),
    _field("learning_rate", float, "peak learning rate", "training.learning_rate", low=0,
           low_open=True, aliases="lr"),
    _field("epochs", float, "times through the data", "training.epochs", "training.max_steps",
           low=0, low_open=True, counts=True, aliases="num_train_epochs num_epochs"),
    _field("max_steps", int, "optimizer steps; -1 is off", "training.max_steps",
           "training.epochs", low=-1, aliases="max_train_steps"),
    _field("warmup", float, "steps up to the peak learning rate, or a share below 1",
           "training.warmup_steps", "training.warmup_share", low=0, aliases="warmup_steps"),
    _field("warmup_ratio", float, "share of the steps up to the peak learning rate",
           "training.warmup_share", low=0, high=1, high_open=True, aliases="warmup_share"),
    _field("lr_scheduler", str, "learning rate after warm-up", "training.schedule",
           choices=("linear", "cosine", "constant", "constant_with_warmup"),
           aliases="lr_scheduler_type scheduler"),
    _field("min_learning_rate", float, "learning rate at the end", "training.min_learning_rate",
           low=0, aliases="min_lr"),
    _field("min_lr_rate", float, "share of the learning rate that is left at the end",
           "training.min_learning_rate", low=0, high=1, aliases="min_lr_ratio"),
    _field("weight_decay", float, "decay of weight matrices", "training.weight_decay", low=0),
    _field("adam_beta1", float, "AdamW's average of gradients", "training.betas", low=0, high=1,
           high_open=True),
    _field("adam_beta2", float, "AdamW's average of squares", "training.betas", low=0, high=1,
           high_open=True),
    _field("max_grad_norm", float, "largest gradient norm; 0 is off", "training.gradient_clip",
           low=0, aliases="gradient_clipping"),
    _field("label_smoothing_factor", float, "share of the target that all tokens have alike",
           "model.label_smoothing", low=0, high=1, aliases="label_smoothing"),
    _field("early_stopping_patience", int, "validations without improvement before the end",
           "training.patience", low=1, aliases="patience"),
    _field("logging_steps", int, "optimizer steps between progress lines", "training.log_every",
           low=1),
    _field("save_strategy", str, "when checkpoints are written", "training.save_every_steps",
           choices=("no", "steps", "epoch")),
    _field("save_steps", int, "optimizer steps between checkpoints", "training.save_every_steps",
           low=1, aliases="save_every_steps", advice="shares of the run are not offered"),
    _field("save_total_limit", int, "checkpoints kept", "training.keep", low=1),
    _field("eval_strategy", str, "when to validate", "training.eval_every_steps",
           "training.eval_every_epochs", choices=("no", "steps", "epoch"),
           aliases="evaluation_strategy"),
    _field("eval_steps", int, "optimizer steps between validations", "training.eval_every_steps",
           "training.eval_every_epochs", low=1, aliases="eval_every_steps",
           advice="shares of the run are not offered"),
)  # fmt: skip
FIELDS: Mapping[str, Field] = MappingProxyType({field.name: field for field in _TABLE})
SPELLINGS: Mapping[str, Field] = MappingProxyType(
    {name: field for field in _TABLE for name in (field.name, *field.aliases)}
)


def schema() -> dict[str, object]:
    """Return the JSON schema of a manifest (draft 2020-12), without rules across fields."""
    properties: dict[str, object] = {field.name: field.schema() for field in _TABLE}
    for spelling, field in SPELLINGS.items():
        if spelling != field.name:
            properties[spelling] = {"$ref": f"#/properties/{field.name}"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hotloop expert-sft manifest",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


def schema_text() -> str:
    """Return the text of manifest.schema.json, which is stored beside this file."""
    return json.dumps(schema(), indent=1) + "\n"
