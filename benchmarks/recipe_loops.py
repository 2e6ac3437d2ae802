"""A recipe's training by hotloop, by Hugging Face's Trainer and by TRL, each with its own feeding.

Peers get hotloop's tokens in lists, as a tokenised data set has them.
"""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn.functional import cross_entropy

from benchmarks import loops
from benchmarks.recipe_contestant import RATE, STEPS
from benchmarks.recipe_data import kept
from benchmarks.shifted_loss import shifted_loss
from benchmarks.turns import NotRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from benchmarks.recipe_contestant import Contestant
    from hotloop.core.plan import Plan
    from hotloop.jobs.job import PreparedRun
    from hotloop.session.batch import Batch

__all__ = ["MeanPooled", "hotloop", "products", "trainer", "trl"]

RANK, ALPHA = 16, 32


def hotloop(
    here: Contestant,
    *more: str,
    plan: Plan | None = None,
    all_logits: bool = False,
) -> None:
    """Train by hotloop's engine, with settings beside the case's own.

    `all_logits` makes the logits of prompts and padding as well.
    """
    parts = here.given.assembly(*more, plan=plan)
    here.forecast = None if all_logits else parts.decision.forecast.peak_bytes
    here.loss_of = lambda model, batch: parts.job.loss(model, {**batch, "label": batch["labels"]})
    if all_logits:
        job = replace(parts.job, loss=lambda m, b: shifted_loss(m.logits(b), b["labels"]))
        parts = replace(parts, job=job)
    feed = replace(parts.feed, samples=_Counted(parts.job.train, here))
    loops.hotloop(_Built(replace(parts, feed=feed), here))


class _Built(loops.Course):
    """A course that tells its contestant when the model is built."""

    def __init__(self, parts: PreparedRun, here: Contestant) -> None:
        super().__init__(parts, here.pull)
        self._here = here

    def build(self, frozen: torch.dtype | None = None, weights: bool = True) -> nn.Module:
        self._here.building()
        self._here.model = super().build(frozen, weights)
        return self._here.model


class _Counted:
    """A job's samples that count what they give."""

    def __init__(self, samples: Any, here: Contestant) -> None:
        self._samples, self._here = samples, here

    def __len__(self) -> int:
        return len(self._samples)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._samples, name)

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        batch: Batch = self._samples.batch(epoch, first, count)
        rows = self._samples.ids(epoch, first, count)
        self._here.count(int(self._samples.lengths[rows].sum()), batch.tokens)
        return batch


class MeanPooled(nn.Module):
    """transformers' own encoder and attention, with the pooling and kind of head of hotloop."""

    def __init__(self, encoder: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        labels: Tensor,
        token_type_ids: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the loss and the logits [rows, classes]."""
        hidden = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state
        real = attention_mask[..., None].to(hidden.dtype)
        logits = self.head((hidden * real).sum(1) / real.sum(1))
        return {"loss": cross_entropy(logits.float(), labels), "logits": logits}


def _their_loss(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    found: Tensor = model(**{**batch, "attention_mask": batch["attention_mask"].long()})["loss"]
    return found


def _their_model(here: Contestant, *, adapt: bool) -> Any:
    """Return the model of the folder as transformers loads it; with PEFT's LoRA to `adapt` it."""
    from transformers import AutoModel, AutoModelForCausalLM

    if here.given.recipe == "pair-classifier":
        encoder = AutoModel.from_pretrained(here.given.folder / "model", add_pooling_layer=False)
        weights = load_file(here.given.folder / "head.safetensors")
        head = nn.Linear(*reversed(weights["0.weight"].shape))
        head.load_state_dict({name.removeprefix("0."): each for name, each in weights.items()})
        return MeanPooled(encoder, head)
    model = AutoModelForCausalLM.from_pretrained(here.given.folder / "model", dtype=torch.float32)
    if not adapt:
        return model
    from peft import get_peft_model

    return get_peft_model(model, _lora())


def _lora() -> Any:
    from peft import LoraConfig

    return LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules="all-linear", task_type="CAUSAL_LM")


def _arguments(here: Contestant, folder: str) -> dict[str, Any]:
    """Return what equals the settings of hotloop's rows; all else is the peer's own default."""
    return {
        "output_dir": folder,
        "max_steps": STEPS,
        "per_device_train_batch_size": here.given.batch,
        "learning_rate": RATE,
        "lr_scheduler_type": "constant",
        "weight_decay": 0.0,
        "bf16": here.given.is_bf16,
        "use_cpu": True,
        "dataloader_pin_memory": False,  # there is no GPU
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


def _watched(kind: type, here: Contestant) -> type:
    """Return a Trainer that tells when a step begins and what it is given."""

    class Watched(kind):  # type: ignore[misc]
        def training_step(self, model: nn.Module, inputs: Any, *rest: Any, **more: Any) -> Tensor:
            here.pull()
            ids, mask = inputs["input_ids"], inputs.get("attention_mask")
            here.count(ids.numel() if mask is None else int(mask.sum()), ids.numel())
            found: Tensor = super().training_step(model, inputs, *rest, **more)
            return found

    return Watched


def _quiet() -> None:
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()


def _trained(loop: Any) -> None:
    """Train until the end, which others bring. Raises NotRun with what the peer has to say."""
    from transformers import PrinterCallback

    loop.remove_callback(PrinterCallback)  # hotloop's screen is off as well
    try:
        loop.train()
    except (NotImplementedError, RuntimeError, ValueError) as error:
        raise NotRun(f"{type(error).__name__}: {error}") from error


def trainer(here: Contestant, *, pad_to: int | None = None, **arguments: Any) -> None:
    """Train by Hugging Face's Trainer with the batches of its own collators.

    `pad_to` pads the rows beforehand, as run_glue.py does by default.
    """
    from transformers import (
        AutoTokenizer,
        DataCollatorForSeq2Seq,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        default_data_collator,
    )

    _quiet()
    tokenizer = AutoTokenizer.from_pretrained(here.given.folder / "model")
    rows: list[Any] = kept(here.given.folder, "train")
    if pad_to is not None:
        whole = {"padding": "max_length", "max_length": pad_to}
        rows = [dict(tokenizer.pad(row, **whole)) for row in rows]
        collator: Any = default_data_collator
    elif here.given.recipe == "pair-classifier":
        collator = DataCollatorWithPadding(tokenizer)
    else:
        collator = DataCollatorForSeq2Seq(tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        set_to = TrainingArguments(**{**_arguments(here, folder), **arguments})
        here.building()
        here.model, here.loss_of = _their_model(here, adapt=here.given.adapts), _their_loss
        _trained(
            _watched(Trainer, here)(
                model=here.model, args=set_to, train_dataset=rows, data_collator=collator
            )
        )


def products(here: Contestant) -> None:
    """Make a step's products with weights, and nothing else: no loop can be faster.

    Each linear layer multiplies the tokens of a batch that has no padding, and makes the gradients
    of its input and of its weight; a language model's head those of the tokens that carry loss.
    Layers frozen under LoRA make no gradient of their weight. Weights are in the precision already.
    """
    dtype = torch.bfloat16 if here.given.is_bf16 else torch.float32
    rows: list[Any] = kept(here.given.folder, "train")
    here.building()
    here.model, here.loss_of = _their_model(here, adapt=False), _their_loss
    layers = [
        (module.weight.detach().to(dtype), name.endswith("lm_head"), here.given.adapts)
        for name, module in here.model.named_modules()
        if isinstance(module, nn.Linear) and not name.startswith("head")
    ]
    for at in itertools.count(0, here.given.batch):
        batch = [rows[each % len(rows)] for each in range(at, at + here.given.batch)]
        tokens = sum(len(row["input_ids"]) for row in batch)
        learned = tokens
        if here.given.recipe != "pair-classifier":
            learned = sum(label != -100 for row in batch for label in row["labels"])
        here.pull()
        here.count(tokens, tokens)
        for weight, is_head, is_frozen in layers:
            given = torch.ones(learned if is_head else tokens, weight.shape[1], dtype=dtype)
            grad = given @ weight.T
            grad @ weight
            if not is_frozen:
                grad.T @ given


def trl(here: Contestant, **arguments: Any) -> None:
    """Train by TRL's SFTTrainer on rows whose prompts it is told of."""
    import datasets
    from transformers import AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    _quiet()
    datasets.disable_progress_bars()
    tokenizer = AutoTokenizer.from_pretrained(here.given.folder / "model")
    rows = [
        {"input_ids": row["input_ids"], "completion_mask": [int(n != -100) for n in row["labels"]]}
        for row in kept(here.given.folder, "train")
    ]
    with tempfile.TemporaryDirectory() as folder:
        usual = {"completion_only_loss": True, "max_length": here.given.longest}
        set_to = SFTConfig(**{**_arguments(here, folder), **usual, **arguments})
        here.building()
        try:
            loop = _watched(SFTTrainer, here)(
                model=_their_model(here, adapt=False),
                args=set_to,
                train_dataset=datasets.Dataset.from_list(rows),
                processing_class=tokenizer,
                peft_config=_lora() if here.given.adapts else None,
            )
        except ValueError as error:
            raise NotRun(f"{type(error).__name__}: {error}") from error
        here.model, here.loss_of = loop.model, _their_loss
        _trained(loop)
