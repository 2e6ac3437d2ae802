"""A causal language model in the way of transformers' run_clm.py: all settings are options."""

from dataclasses import dataclass, field

import torch
from torch.utils.data import Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    default_data_collator,
)


@dataclass
class ModelArguments:
    """Of the model."""

    width: int = field(default=32, metadata={"help": "of a layer"})
    attn_implementation: str = field(default="eager")


@dataclass
class DataTrainingArguments:
    """Of the data."""

    block_size: int = field(default=16)
    samples: int = 640


class Blocks(Dataset):
    def __init__(self, args: DataTrainingArguments) -> None:
        self.rows = torch.randint(0, 64, (args.samples, args.block_size))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index].tolist()
        return {"input_ids": row, "labels": row}


def main() -> None:
    parser = HfArgumentParser((ModelArguments, DataTrainingArguments, TrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()
    config = GPT2Config(
        vocab_size=64, n_positions=16, n_embd=model_args.width, n_layer=1, n_head=2,
        bos_token_id=0, eos_token_id=0, attn_implementation=model_args.attn_implementation,
    )  # fmt: skip
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=training_args,
        train_dataset=Blocks(data_args),
        data_collator=default_data_collator,
    )
    trainer.train()


if __name__ == "__main__":
    main()
