"""GPT-2 in miniature on Shakespeare's characters, trained by transformers.Trainer."""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    set_seed,
)


@dataclass
class ScriptArguments:
    out: str = field(default="out", metadata={"help": "where the model goes"})
    block_size: int = 64
    n_embd: int = 48
    n_layer: int = 2
    max_steps: int = 160
    eval_steps: int = 5


def blocks(ids, size):
    n = len(ids) // size
    rows = ids[: n * size].view(n, size)
    return [{"input_ids": row, "labels": row} for row in rows]


def main():
    (args,) = HfArgumentParser(ScriptArguments).parse_args_into_dataclasses()
    set_seed(11)
    text = (Path(__file__).parent / ".." / "data" / "shakespeare.txt").resolve().read_text()
    chars = sorted(set(text))
    ids = torch.tensor([chars.index(c) for c in text])
    split = int(len(ids) * 0.92)
    train_set = blocks(ids[:split], args.block_size)
    eval_set = blocks(ids[split:], args.block_size)
    print(f"{len(train_set)} training blocks, {len(eval_set)} evaluation blocks")

    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(chars),
            n_positions=args.block_size,
            n_embd=args.n_embd,
            n_layer=args.n_layer,
            n_head=4,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    print(f"{model.num_parameters():,} parameters")
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=args.out,
            max_steps=args.max_steps,
            per_device_train_batch_size=8,
            per_device_eval_batch_size=32,
            learning_rate=3e-3,
            lr_scheduler_type="cosine",
            warmup_steps=10,
            logging_steps=20,
            eval_strategy="steps",
            eval_steps=args.eval_steps,
            prediction_loss_only=True,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            dataloader_pin_memory=False,
        ),
        train_dataset=train_set,
        eval_dataset=eval_set,
    )
    output = trainer.train()
    print(f"loss {output.training_loss:.3f} after {output.metrics['train_runtime']:.1f} s")
    trainer.save_model()


if __name__ == "__main__":
    main()
