"""A whole training by a peer, in a process of its own: what benchmarks.quality compares with.

python -m benchmarks.quality_peers ORDER.json RESULT.json

The peer gets hotloop's tokens in lists, so that data, cuts and labels are the same. Its clock runs
while it trains: from the first step on, without the validations, which are made by one function
for all peers.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from benchmarks import loops
from benchmarks.recipe_data import held, rows_of
from benchmarks.recipe_loops import MeanPooled
from hotloop.recipes.building.metrics import report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["main"]

ROWS = 32  # of a validation batch
IGNORED = -100


@dataclass(slots=True, kw_only=True)
class Order:
    """What a peer is to train."""

    peer: str  # "trainer" or "trl"
    recipe: str
    model: str  # folder
    settings: list[str]  # hotloop's, from which tokens are made
    batch: int
    epochs: int
    rate: float
    schedule: str
    warmup: float  # share of all steps
    decay: float
    adapter: str  # "none", "lora" or "dora"
    rank: int
    marks: int  # validations; one more at the end if they do not divide the steps
    seed: int
    by_length: bool  # rows of like length together, else in random order
    attention: str  # transformers' name of it


@dataclass(slots=True)
class Watch:
    """Validates at some steps and keeps the seconds of training up to them."""

    evaluate: Callable[[], dict[str, float]]
    marks: set[int]
    curve: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    _since: float | None = None

    def begins(self) -> None:
        """Let the clock run, if it does not."""
        self._since = time.perf_counter() if self._since is None else self._since

    def made(self, step: int) -> None:
        """Validate if this is a step to do so after."""
        assert self._since is not None
        if step in self.marks:
            self.seconds += time.perf_counter() - self._since
            self.curve.append({"step": step, "seconds": self.seconds, **self.evaluate()})
            self._since = time.perf_counter()


def evaluated(model: nn.Module, rows: list[dict[str, Any]], *, classes: bool) -> dict[str, float]:
    """Return loss and scores of rows, in bf16 as in training; tokens count alike."""
    rows = sorted(rows, key=lambda row: len(row["input_ids"]))
    losses, count, right, said = 0.0, 0, [], []
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for at in range(0, len(rows), ROWS):
            batch = held(rows[at : at + ROWS])
            labels = batch["labels"]
            logits = model(**{**batch, "attention_mask": batch["attention_mask"].long()})["logits"]
            if not classes:
                labels, logits = labels[:, 1:].flatten(), logits[:, :-1].flatten(0, 1)
                logits, labels = logits[labels != IGNORED], labels[labels != IGNORED]
            losses += float(cross_entropy(logits.float(), labels, reduction="sum"))
            count += len(labels)
            right += labels.tolist()
            said += logits.argmax(-1).tolist()
    model.train()
    share = sum(r == s for r, s in zip(right, said, strict=True)) / count
    found = {"loss": losses / count, "accuracy" if classes else "token_accuracy": share}
    if not classes:
        return found
    names = [str(one) for one in range(max(right) + 1)]
    counts = np.zeros((1, len(names), len(names)), dtype=np.int64)
    np.add.at(counts, (0, right, said), 1)
    return {**found, "macro_f1": report(counts, names=names).whole.macro_f1 or 0.0}


def _model(order: Order, classes: int) -> Any:
    from transformers import AutoModel, AutoModelForCausalLM

    torch.manual_seed(order.seed)
    how: dict[str, Any] = {"dtype": torch.float32, "attn_implementation": order.attention}
    if order.recipe != "pair-classifier":
        return AutoModelForCausalLM.from_pretrained(order.model, **how)
    encoder = AutoModel.from_pretrained(order.model, add_pooling_layer=False, **how)
    width = encoder.config.hidden_size
    if order.adapter != "none":
        from peft import get_peft_model

        encoder = get_peft_model(encoder, _lora(order))
    return MeanPooled(encoder, nn.Linear(width, classes))


def _lora(order: Order, **more: Any) -> Any:
    from peft import LoraConfig

    is_dora = order.adapter == "dora"
    scale = 2 * order.rank
    return LoraConfig(
        r=order.rank, lora_alpha=scale, target_modules="all-linear", use_dora=is_dora, **more
    )


def trained(order: Order, task: int | None = None) -> dict[str, Any]:
    """Train as ordered, on the rows of one task if it is given; return the curve."""
    from transformers import (
        AutoTokenizer,
        DataCollatorForSeq2Seq,
        DataCollatorWithPadding,
        PrinterCallback,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    is_classifier = order.recipe == "pair-classifier"
    parts = loops.assembly(tuple(order.settings), recipe=order.recipe)
    train, valid = (
        [row for row in rows_of(samples) if task is None or row["task"] == task]  # type: ignore[arg-type]
        for samples in (parts.job.train, parts.job.valid)
    )
    tokenizer = AutoTokenizer.from_pretrained(order.model)
    steps = order.epochs * math.ceil(len(train) / order.batch)
    every = steps // order.marks
    marks = {*range(every, steps, every), steps}
    classes = len({row["labels"] for row in train}) if is_classifier else 0
    arguments: dict[str, Any] = {
        "per_device_train_batch_size": order.batch,
        "num_train_epochs": order.epochs,
        "learning_rate": order.rate,
        "lr_scheduler_type": order.schedule,
        "warmup_steps": round(order.warmup * steps),
        "weight_decay": order.decay,
        "train_sampling_strategy": "group_by_length" if order.by_length else "random",
        "seed": order.seed,
        "bf16": True,
        "use_cpu": True,
        "dataloader_pin_memory": False,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    model = _model(order, classes)
    watch = Watch(lambda: evaluated(loop.model, valid, classes=is_classifier), marks)

    class Told(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            watch.begins()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            watch.made(state.global_step)

    with tempfile.TemporaryDirectory() as folder:
        if order.peer == "trainer":
            collator = DataCollatorWithPadding if is_classifier else DataCollatorForSeq2Seq
            loop = Trainer(
                model=model,
                args=TrainingArguments(output_dir=folder, **arguments),
                train_dataset=train,
                data_collator=collator(tokenizer),
            )
        else:
            import datasets
            from trl import SFTConfig, SFTTrainer

            datasets.disable_progress_bars()
            told = [
                {
                    "input_ids": row["input_ids"],
                    "completion_mask": [int(n != IGNORED) for n in row["labels"]],
                }
                for row in train
            ]
            usual = {"completion_only_loss": True, "max_length": None}
            arguments |= {"gradient_checkpointing": False, **usual}
            adapted = order.adapter != "none"
            loop = SFTTrainer(
                model=model,
                args=SFTConfig(output_dir=folder, **arguments),
                train_dataset=datasets.Dataset.from_list(told),
                processing_class=tokenizer,
                peft_config=_lora(order, task_type="CAUSAL_LM") if adapted else None,
            )
        loop.remove_callback(PrinterCallback)
        loop.add_callback(Told())
        loop.train()
    trainable = sum(p.numel() for p in loop.model.parameters() if p.requires_grad)
    return {"curve": watch.curve, "trainable": trainable, "rows": len(train), "held": len(valid)}


def of_tasks(order: Order) -> dict[str, Any]:
    """Train once for each task; return the curve of their mean score and the sum of their time."""
    parts = loops.assembly(tuple(order.settings), recipe=order.recipe)
    tasks = sorted({row["task"] for row in rows_of(parts.job.train)})  # type: ignore[arg-type]
    found = [trained(order, task) for task in tasks]
    curve = []
    for mark in range(order.marks):
        points = [one["curve"][mark] for one in found]
        point = {name: sum(each[name] for each in points) for name in ("step", "seconds")}
        curve.append({**point, "tasks": sum(p["token_accuracy"] for p in points) / len(points)})
    return {"curve": curve, "rows": sum(one["rows"] for one in found)}


def main(argv: list[str]) -> None:
    """Train and write what came of it."""
    warnings.simplefilter("ignore")
    order_file, result = map(Path, argv)
    order: Mapping[str, Any] = json.loads(order_file.read_text())
    made = Order(**order)
    found = of_tasks(made) if made.recipe == "task-router" else trained(made)
    found["peak_MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    result.write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
