"""A causal language model that transformers' Trainer trains with accumulated gradients."""

import tempfile
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import Dataset

__all__ = ["Rows", "Trained", "train", "trainer_of"]

IDS, WIDTH = 32, 12


class Rows(Dataset):
    """Rows of `WIDTH` ids, of which 4 or more have a label; -100 elsewhere."""

    def __init__(self, count: int = 64) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index):
        own = torch.Generator().manual_seed(index)
        ids = torch.randint(1, IDS, (WIDTH,), generator=own)
        labels = ids.clone()
        labels[int(torch.randint(4, WIDTH, (1,), generator=own)) :] = -100
        return {"input_ids": ids, "labels": labels}


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a training leaves behind."""

    losses: list[float]  # of the optimizer steps
    weights: dict[str, torch.Tensor]
    rows: int  # of the arguments, after it
    passes: int


def trainer_of(
    *, rows: int = 2, passes: int = 8, kind: Any = None, data: Any = None, model: Any = None, **more
) -> Any:
    """Return a Trainer, or one of class `kind`, of a model without dropout; `more` are arguments.

    Those in capitals are the Trainer's own.
    """
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    torch.manual_seed(0)
    if model is None:
        shape = {"vocab_size": IDS, "n_positions": WIDTH, "n_embd": 16, "n_layer": 1, "n_head": 2}
        none = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
        model = GPT2LMHeadModel(GPT2Config(**shape, **none))
    own = {name.lower(): more.pop(name) for name in list(more) if name.isupper()}
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            **{
                "output_dir": folder,
                "per_device_train_batch_size": rows,
                "gradient_accumulation_steps": passes,
                "max_steps": 3,
                "logging_steps": 1,
                "save_strategy": "no",
                "report_to": "none",
                "use_cpu": True,
                "disable_tqdm": True,
                "dataloader_pin_memory": False,
                **more,
            }
        )
        data = data or Rows()
        return (kind or Trainer)(model=model, args=args, train_dataset=data, **own)


def train(trainer: Any = None, **options) -> Trained:
    """Train for three steps and return what that leaves behind."""
    trainer = trainer or trainer_of(**options)
    trainer.train()
    return Trained(
        losses=[entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
        weights={name: p.detach().clone() for name, p in trainer.model.named_parameters()},
        rows=trainer.args.per_device_train_batch_size,
        passes=trainer.args.gradient_accumulation_steps,
    )
