"""Turns the fields of an expert's manifest into settings, with a sentence for each field.

What is refused stops the run: fields that contradict each other, and what cannot be done.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from hotloop.core.env import ENV
from hotloop.core.errors import ConfigError
from hotloop.recipes.sft.manifest_answers import Answer, AnswerCollector, ManifestField
from hotloop.recipes.sft.manifest_fields import FIELDS, OPTIMIZERS, TEMPLATES
from hotloop.recipes.sft.manifest_paths import (
    OF_WINDOWS,
    below,
    fill,
    is_of_hub,
    is_of_windows,
    placeholders,
)
from hotloop.recipes.sft.manifest_translation import hub_advice

__all__ = ["answers"]

_USUAL_STEPS = 500  # of save_steps and logging_steps: transformers 5.23, training_args.py
_LEAST_KEPT = 2  # low of Training.keep: a torn checkpoint must not be the only one
_PLAIN = (  # fields that become their first setting unchanged
    "max_seq_length", "use_tf32", "torch_compile", "learning_rate",
    "prompt_column", "response_column", "instruction_column", "input_column", "output_column",
    "messages_column", "text_column", "loss", "drop_last", "seed", "weight_decay", "max_grad_norm",
    "label_smoothing_factor", "early_stopping_patience", "logging_steps", "min_learning_rate",
)  # fmt: skip
_BETAS = (0.9, 0.999)  # of transformers' TrainingArguments
_ROWS_TYPED = "data.path=… on the command line replaces the rows of the manifest"
_PATTERN = re.compile(r"[\\\[\](){}|*+?^$]")  # of regular expressions, which PEFT reads
_LEAST_HELD = 0.01  # share of the rows that is held out where a file asks for none


def answers(
    fields: Mapping[str, ManifestField],
    *,
    folder: Path,
    expert: str,
    given: Mapping[str, object] = MappingProxyType({}),
) -> tuple[Answer, ...]:
    """Return the answer to each field, in the order of the manifest; no setting is set twice.

    `fields` are keyed by canonical name and have values; `folder` is the manifest's folder, and
    `given` are the settings of the command line, which decide.
    """
    collector = AnswerCollector(fields, given)
    collector.effect("name", f"the expert is called {expert}")
    for name in ("$schema", "description"):
        collector.idle(name, f"it is {FIELDS[name].rule.meaning}, and decides nothing")
    for rule in (
        _batch, _loader, _precision, _kernels, _optimizer, _rows, _held_out, _adapter,
        _quantization, _end, _warmup, _saving, _evaluation,
    ):  # fmt: skip
        rule(collector)
    _model(collector, folder)
    _paths(collector, folder, placeholders(expert, collector.value("model")))
    for name in _PLAIN:
        _becomes(collector, name)
    answered = {id(one) for answer in collector.answers.values() for one in answer.beside}
    return tuple(
        collector.answers[name] for name, field in fields.items() if id(field) not in answered
    )


def _becomes(collector: AnswerCollector, name: str) -> None:
    """Answer that a field sets its first setting to its value; the reason is its meaning."""
    if name in collector.fields:
        field = FIELDS[name]
        collector.effect(name, field.rule.meaning, {field.targets[0]: collector.value(name)})


def _batch(collector: AnswerCollector) -> None:
    size, times = collector.value("batch_size"), collector.value("gradient_accumulation_steps")
    if size is None and times and times > 1:
        collector.refuse(
            ("gradient_accumulation_steps",),
            "how large a micro batch is, is missing: write batch_size, too",
        )
        return
    alone = {} if times else {"training.accumulation": 1}
    of_ranks = f" on each of {ENV.world} ranks" if ENV.world > 1 else ""
    collector.effect(
        "batch_size",
        f"{times or 1} x {size} samples{of_ranks} are one optimizer step",
        {"training.batch_size": (size or 1) * (times or 1) * ENV.world, **alone},
    )
    collector.effect(
        "gradient_accumulation_steps",
        "micro batches in one optimizer step",
        {"training.accumulation": times},
    )


def _loader(collector: AnswerCollector) -> None:
    why = "batches are cut from a memory-mapped file of tokens, without loader processes"
    collector.idle("dataloader_num_workers", why)
    if collector.value("dataloader_num_workers") == 0:
        none = "there are no workers (dataloader_num_workers=0), and torch refuses the two together"
        for name in ("dataloader_prefetch_factor", "dataloader_persistent_workers"):
            collector.idle(name, none if collector.value(name) else why)
    else:
        collector.idle("dataloader_prefetch_factor", why)
        collector.idle("dataloader_persistent_workers", why)
    collector.idle("dataloader_pin_memory", "memory is pinned where there is CUDA, and only there")


def _precision(collector: AnswerCollector) -> None:
    fp16, bf16 = collector.value("fp16"), collector.value("bf16")
    if fp16 and bf16 == "auto":
        collector.idle("fp16", "bf16=auto decides: bf16 where the device has it, else fp16")
    elif fp16 and bf16:
        collector.refuse(
            ("fp16", "bf16"), "training computes in one of them: set the other to false"
        )
        return
    chosen = "auto" if bf16 == "auto" else "bf16" if bf16 else "fp16" if fp16 else "fp32"
    setter = "bf16" if bf16 or fp16 is None else "fp16"
    for name, other_value in (("fp16", bf16), ("bf16", fp16)):
        settings = {"training.precision": chosen} if name == setter else {}
        if collector.value(name):
            is_auto = "bf16 where the device has it"
            collector.effect(
                name, is_auto if chosen == "auto" else f"compute in {chosen}", settings
            )
        elif other_value:
            collector.effect(name, f"off: the compute type is {chosen}", settings)
        else:
            collector.effect(
                name, "neither fp16 nor bf16 is on, so fp32 as in transformers", settings
            )


def _kernels(collector: AnswerCollector) -> None:
    fused, again = collector.value("use_sdpa"), collector.value("gradient_checkpointing")
    collector.effect(
        "use_sdpa",
        "the fastest fused kernel there is" if fused else "attention written out",
        {"model.attention": "auto" if fused else "naive"},
    )
    collector.effect(
        "gradient_checkpointing",
        "activations are computed twice to save memory" if again else "activations are kept",
        {"model.checkpointing": "full" if again else "off"},
    )


def _optimizer(collector: AnswerCollector) -> None:
    optimizer = collector.value("optim")
    if optimizer is not None:
        ours, why = OPTIMIZERS[optimizer]
        collector.effect("optim", why or FIELDS["optim"].rule.meaning, {"training.optim": ours})
    first, second = collector.value("adam_beta1"), collector.value("adam_beta2")
    betas = (_BETAS[0] if first is None else first, _BETAS[1] if second is None else second)
    for name in ("adam_beta1", "adam_beta2"):
        is_first = name == "adam_beta1" or first is None  # one field sets a setting
        settings = {"training.betas": betas} if is_first else {}
        collector.effect(name, FIELDS[name].rule.meaning, settings)


def _rows(collector: AnswerCollector) -> None:
    if template := collector.value("chat_template"):
        how = {"data.template": TEMPLATES[template]}
        collector.effect("chat_template", FIELDS["chat_template"].rule.meaning, how)
    grouped, packed = collector.value("group_by_length"), collector.value("packing")
    _becomes(collector, "packing")
    if grouped and packed:
        collector.idle(
            "group_by_length",
            "packed rows are of one length, so there is nothing to group; packing wastes less",
            {"data.group_by_length": False},
        )
        return
    unpacked = {"data.packing": False} if grouped and packed is None else {}
    collector.effect(
        "group_by_length",
        "rows of like length share a batch, so they are not packed; packing wastes less"
        if grouped
        else "rows are not grouped",
        {"data.group_by_length": grouped, **unpacked},
    )


def _held_out(collector: AnswerCollector) -> None:
    share = collector.value("validation_share")
    if collector.value("valid_data") is not None:
        collector.idle("validation_share", "valid_data names the rows to validate on")
    elif share == 0:
        why = f"a run always validates: {_LEAST_HELD:.0%} of the rows are held out"
        collector.effect("validation_share", why, {"data.validation_share": _LEAST_HELD})
    elif share is not None:
        _becomes(collector, "validation_share")


def _adapter(collector: AnswerCollector) -> None:
    if _PATTERN.search(collector.value("target_modules") or ""):
        why = "regular expressions are not read: write the ends of the layers' names, or all-linear"
        collector.refuse(("target_modules",), why)
    kind = collector.value("adapter_type")
    method = {"qlora": "lora", "full": "none"}.get(kind, kind)
    settings = {"adapter.method": method}
    if kind == "qlora":
        settings["adapter.quantization"] = "nf4"
        collector.effect("adapter_type", "LoRA on frozen 4-bit weights", settings)
    elif method == "none":
        collector.effect("adapter_type", "no adapter: all weights are trained", settings)
    else:
        collector.effect("adapter_type", f"adapters are trained, by {method}", settings)
    for name in ("rank", "alpha", "dropout", "target_modules"):
        if method == "none":
            collector.idle(name, "without an adapter it says nothing")
        elif method == "ia3" and name != "target_modules":
            collector.idle(
                name, "ia3 learns one factor a channel: it has no rank, alpha and dropout"
            )
        else:
            _becomes(collector, name)


def _quantization(collector: AnswerCollector) -> None:
    votes = {
        "adapter_type": "nf4" if collector.value("adapter_type") == "qlora" else None,
        "quantization": collector.value("quantization") and (
            "none" if collector.value("quantization") == "none" else "nf4"
        ),
        "load_in_4bit": {True: "nf4", False: "none", None: None}[collector.value("load_in_4bit")],
    }  # fmt: skip
    cast = {name: vote for name, vote in votes.items() if vote}
    if collector.value("load_in_8bit"):
        collector.refuse(
            ("load_in_8bit",), "8-bit weights are not offered: write quantization: nf4"
        )
    collector.idle("load_in_8bit", "8-bit weights are not offered, so they are off")
    if len(set(cast.values())) > 1:
        collector.refuse(tuple(cast), "one asks for 4-bit weights and one does not: keep one")
    elif "nf4" in cast.values() and collector.value("adapter_type") in ("none", "full"):
        collector.refuse(
            ("adapter_type", next(iter(cast))),
            "4-bit weights are frozen, so without an adapter nothing is trained: keep one",
        )
    for number, (name, vote) in enumerate(cast.items()):
        if name != "adapter_type":
            why = "frozen weights in NF4, quantised twice" if vote == "nf4" else "weights as stored"
            collector.effect(name, why, {} if number else {"adapter.quantization": vote})


def _end(collector: AnswerCollector) -> None:
    epochs, steps = collector.value("epochs"), collector.value("max_steps")
    if steps is None or steps < 1:
        collector.idle("max_steps", "below 1 it is off, as in transformers")
        whole = {"training.epochs": epochs, "training.max_steps": None}
        collector.effect("epochs", "the run ends after these", whole)
        return
    collector.idle("epochs", "max_steps decides, as in transformers")
    end = {"training.max_steps": steps, "training.epochs": None}
    collector.effect("max_steps", "the run ends after these optimizer steps", end)


def _warmup(collector: AnswerCollector) -> None:
    warmup, ratio = collector.value("warmup"), collector.value("warmup_ratio")
    if warmup and ratio:
        collector.refuse(("warmup", "warmup_ratio"), "two lengths of one warm-up: keep one")
    if warmup and warmup >= 1 and not warmup.is_integer():
        collector.refuse(("warmup",), "expected whole optimizer steps, or a share of them below 1")
    is_share = warmup is not None and 0 < warmup < 1
    if warmup is not None and (warmup or not ratio):
        key, value = ("warmup_share", warmup) if is_share else ("warmup_steps", int(warmup))
        why = "share of the optimizer steps" if is_share else "optimizer steps"
        collector.effect(
            "warmup", f"{why} up to the peak learning rate", {f"training.{key}": value}
        )
        collector.idle("warmup_ratio", "0: the other field says how long warm-up is")
    else:
        collector.idle("warmup", "0: the other field says how long warm-up is")
        _becomes(collector, "warmup_ratio")
    key, share = "training.learning_rate", collector.value("min_lr_rate")
    own = collector.value("learning_rate")
    rate = float(str(collector.given[key])) if key in collector.given else own
    if share is not None and rate is None:
        collector.refuse(("min_lr_rate",), "it is a share of learning_rate, which is missing")
    elif share is not None:
        least = {"training.min_learning_rate": rate * share}
        collector.effect("min_lr_rate", FIELDS["min_lr_rate"].rule.meaning, least)
        collector.idle("min_learning_rate", "min_lr_rate says it")
    schedule = collector.value("lr_scheduler")
    kind = "constant" if schedule == "constant_with_warmup" else schedule
    ignored = schedule == "constant" and bool(warmup or ratio)
    why = "; transformers would leave warm-up out, here it is done" if ignored else ""
    collector.effect("lr_scheduler", f"{kind} after warm-up{why}", {"training.schedule": kind})


def _saving(collector: AnswerCollector) -> None:
    when, steps = collector.value("save_strategy"), collector.value("save_steps")
    every = "training.save_every_steps"
    if when in (None, "steps"):
        usual = {} if steps else {every: _USUAL_STEPS}
        why = (
            "save_steps says how often" if steps else "save_steps of transformers, for want of one"
        )
        collector.effect("save_strategy", why, usual)
        collector.effect("save_steps", FIELDS["save_steps"].rule.meaning, {every: steps})
    else:
        why = {
            "no": "a stopped run must not lose everything: a checkpoint is written by time and at"
            " the end",
            "epoch": "checkpoints are written by time, by steps and at the end, not by epoch: write"
            " save_steps",
        }[when]
        collector.idle("save_strategy", why, {every: None})
        collector.idle("save_steps", f"{collector.fields['save_strategy'].text} leaves it out")
    limit = collector.value("save_total_limit") or 0
    few = f"a torn checkpoint must not be the only one, so {_LEAST_KEPT}"
    why = few if limit < _LEAST_KEPT else "newest checkpoints kept, besides the best"
    collector.effect("save_total_limit", why, {"training.keep": max(limit, _LEAST_KEPT)})


def _evaluation(collector: AnswerCollector) -> None:
    when, steps = collector.value("eval_strategy"), collector.value("eval_steps")
    by_steps, by_epochs = "training.eval_every_steps", "training.eval_every_epochs"
    if when in (None, "steps"):
        often = collector.value("logging_steps") or _USUAL_STEPS
        usual = {} if steps else {by_steps: often, by_epochs: None}
        source = (
            "eval_steps says how often"
            if steps
            else "logging_steps of transformers, for want of eval_steps"
        )
        collector.effect("eval_strategy", source, usual)
        why = FIELDS["eval_steps"].rule.meaning
        collector.effect("eval_steps", why, {by_steps: steps, by_epochs: None})
        return
    often = None if when == "no" else 1
    why = "no validation" if when == "no" else "validation at the end of each epoch"
    collector.effect("eval_strategy", why, {by_epochs: often, by_steps: None})
    collector.idle("eval_steps", f"{collector.fields['eval_strategy'].text} leaves it out")


def _model(collector: AnswerCollector, folder: Path) -> None:
    """Prefer a model folder beside the manifest to another folder, or a hub id, of that name."""
    name, how = collector.value("model"), FIELDS["model"].rule.meaning
    key = FIELDS["model"].targets[0]
    if name and key not in collector.given and is_of_windows(name):
        collector.refuse(("model",), f"{OF_WINDOWS}; give {key}=FOLDER on the command line")
        return
    if name and not Path(name).is_absolute() and (folder / name).is_dir():
        name, how = str(folder / name), "a model folder beside the manifest"
    collector.effect("model", how, {key: name})


def _paths(collector: AnswerCollector, folder: Path, names: Mapping[str, str]) -> None:
    for name in ("data", "valid_data", "pretokenized_cache"):
        text, key = collector.value(name), FIELDS[name].targets[0]
        if text is None:
            continue
        if key in collector.given:
            collector.effect(name, "", {key: text})
        elif name == "valid_data" and "data.path" in collector.given:
            collector.idle(name, f"{_ROWS_TYPED}; {key}=… names others to validate on")
        elif name != "pretokenized_cache" and is_of_hub(folder, text):
            collector.refuse((name,), hub_advice(text))
        else:
            _path(collector, name, folder, names)


def _path(collector: AnswerCollector, name: str, folder: Path, names: Mapping[str, str]) -> None:
    key = FIELDS[name].targets[0]
    try:
        path = below(folder, fill(collector.value(name), names))
    except ConfigError as error:
        collector.refuse((name,), f"{error}; or give {key}=… on the command line")
        return
    if name == "pretokenized_cache" and Path(path) == folder:
        collector.refuse((name,), "it is the manifest's own folder: write a folder below it")
    collector.effect(name, FIELDS[name].rule.meaning, {key: path})
