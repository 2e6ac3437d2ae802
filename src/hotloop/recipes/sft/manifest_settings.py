"""Turns the fields of an expert's manifest into settings, with a sentence for each field.

A field that cannot take effect is refused, and the run continues without it. Fields that contradict
each other so that the intention is unclear raise ConfigError.
"""

from collections.abc import Mapping
from pathlib import Path

from hotloop.core.errors import ConfigError
from hotloop.recipes.sft.manifest_answers import Answer, AnswerCollector, ManifestField
from hotloop.recipes.sft.manifest_fields import FIELDS, OPTIMIZERS
from hotloop.recipes.sft.manifest_paths import below, fill, placeholders

__all__ = ["answers"]

_USUAL_STEPS = 500  # of save_steps and logging_steps: transformers 5.23, training_args.py
_LEAST_KEPT = 2  # low of Training.keep: a torn checkpoint must not be the only one
_PLAIN = (  # fields that become their first setting unchanged
    "max_seq_length", "use_tf32", "torch_compile", "learning_rate",
    "prompt_column", "response_column",
)  # fmt: skip


def answers(
    fields: Mapping[str, ManifestField], *, folder: Path, expert: str
) -> tuple[Answer, ...]:
    """Return one answer for each field, in the order of the manifest; no setting is set twice.

    `fields` are keyed by canonical name; `folder` is the manifest's folder. Raises ConfigError with
    one line for each contradiction.
    """
    collector = AnswerCollector(fields)
    for name, field in fields.items():
        if field.value is None:
            collector.unset(name, "null is no value: the recipe's default stands")
    collector.effect("name", f"the expert is called {expert}")
    for name in ("$schema", "description"):
        collector.idle(name, f"it is {FIELDS[name].rule.meaning}, and decides nothing")
    for name in _PLAIN:
        _becomes(collector, name)
    for rule in (
        _batch, _loader, _precision, _kernels, _optimizer, _rows, _adapter, _quantization, _end,
        _warmup, _saving, _evaluation,
    ):  # fmt: skip
        rule(collector)
    _model(collector, folder)
    _paths(collector, folder, placeholders(expert, collector.value("model")))
    if collector.problems:
        raise ConfigError("\n".join(collector.problems))
    return tuple(collector.answers[name] for name in fields)


def _becomes(collector: AnswerCollector, name: str) -> None:
    """Answer that a field sets its first setting to its value; the reason is its meaning."""
    field = FIELDS[name]
    collector.effect(name, field.rule.meaning, {field.targets[0]: collector.value(name)})


def _batch(collector: AnswerCollector) -> None:
    size, times = collector.value("batch_size"), collector.value("gradient_accumulation_steps")
    if size is None and times and times > 1:
        collector.clash(
            ("gradient_accumulation_steps",),
            "how large a micro batch is, is missing: write batch_size, too",
        )
        return
    alone = {} if times else {"training.accumulation": 1}
    collector.effect(
        "batch_size",
        f"{times or 1} micro batches of {size} samples are one optimizer step",
        {"training.batch_size": (size or 1) * (times or 1), **alone},
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
            is_set = bool(collector.value(name))
            (collector.refuse if is_set else collector.idle)(name, none if is_set else why)
    else:
        collector.idle("dataloader_prefetch_factor", why)
        collector.idle("dataloader_persistent_workers", why)
    collector.idle("dataloader_pin_memory", "memory is pinned where there is CUDA, and only there")


def _precision(collector: AnswerCollector) -> None:
    fp16, bf16 = collector.value("fp16"), collector.value("bf16")
    if fp16 and bf16:
        collector.clash(
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


def _rows(collector: AnswerCollector) -> None:
    grouped, packed = collector.value("group_by_length"), collector.value("packing")
    _becomes(collector, "packing")
    if grouped and packed:
        collector.refuse(
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


def _adapter(collector: AnswerCollector) -> None:
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
        collector.clash(("load_in_8bit",), "8-bit weights are not offered: write quantization: nf4")
    collector.idle("load_in_8bit", "8-bit weights are not offered, so they are off")
    if len(set(cast.values())) > 1:
        collector.clash(tuple(cast), "one asks for 4-bit weights and one does not: keep one")
    elif "nf4" in cast.values() and collector.value("adapter_type") in ("none", "full"):
        collector.clash(
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
    collector.refuse("epochs", "max_steps decides, as in transformers: remove one of them")
    end = {"training.max_steps": steps, "training.epochs": None}
    collector.effect("max_steps", "the run ends after these optimizer steps", end)


def _warmup(collector: AnswerCollector) -> None:
    warmup, ratio = collector.value("warmup"), collector.value("warmup_ratio")
    if warmup and ratio:
        collector.clash(("warmup", "warmup_ratio"), "two lengths of one warm-up: keep one")
    if warmup and warmup >= 1 and not warmup.is_integer():
        collector.clash(("warmup",), "expected whole optimizer steps, or a share of them below 1")
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
        collector.refuse("save_strategy", why, {every: None})
        collector.idle("save_steps", f"{collector.fields['save_strategy'].text} leaves it out")
    limit = collector.value("save_total_limit") or 0
    few = f"a torn checkpoint must not be the only one, so {_LEAST_KEPT}"
    why = few if limit < _LEAST_KEPT else "newest checkpoints kept, besides the best"
    collector.effect("save_total_limit", why, {"training.keep": max(limit, _LEAST_KEPT)})


def _evaluation(collector: AnswerCollector) -> None:
    when, steps = collector.value("eval_strategy"), collector.value("eval_steps")
    by_steps, by_epochs = "training.eval_every_steps", "training.eval_every_epochs"
    if when in (None, "steps"):
        usual = {} if steps else {by_steps: _USUAL_STEPS, by_epochs: None}
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
    if name and not Path(name).is_absolute() and (folder / name).is_dir():
        name, how = str(folder / name), "a model folder beside the manifest"
    collector.effect("model", how, {FIELDS["model"].targets[0]: name})


def _paths(collector: AnswerCollector, folder: Path, names: Mapping[str, str]) -> None:
    for name in ("data", "valid_data", "pretokenized_cache"):
        text = collector.value(name)
        if text is None:
            continue
        try:
            path = below(folder, fill(text, names))
        except ConfigError as error:
            collector.clash((name,), str(error))
            continue
        if name == "pretokenized_cache" and Path(path) == folder:
            collector.clash((name,), "it is the manifest's own folder: write a folder below it")
        collector.effect(name, FIELDS[name].rule.meaning, {FIELDS[name].targets[0]: path})
