"""GPT-2 in miniature on Shakespeare's characters with transformers.Trainer."""

import argparse
from pathlib import Path

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed


def blocks(ids, size):
    n = len(ids) // size
    return [{"input_ids": row, "labels": row} for row in ids[: n * size].view(n, size)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=180)
    parser.add_argument("--block_size", type=int, default=96)
    parser.add_argument("--out", default="out")
    args = parser.parse_args()
    set_seed(11)

    path = Path(__file__).resolve().parent.parent / "slow" / "data" / "shakespeare.txt"
    text = path.read_text()
    index = {c: i for i, c in enumerate(sorted(set(text)))}
    ids = torch.tensor([index[c] for c in text])
    split = int(len(ids) * 0.98)

    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(index),
            n_positions=args.block_size,
            n_embd=96,
            n_layer=3,
            n_head=4,
            bos_token_id=0,
            eos_token_id=0,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=args.out,
            max_steps=args.steps,
            per_device_train_batch_size=8,
            per_device_eval_batch_size=32,
            learning_rate=2e-3,
            lr_scheduler_type="cosine",
            warmup_steps=15,
            weight_decay=0.1,
            logging_steps=20,
            eval_strategy="steps",
            eval_steps=args.steps // 2,
            prediction_loss_only=True,
            save_strategy="steps",
            save_steps=args.steps,
            report_to=[],
            use_cpu=True,
            dataloader_pin_memory=False,
        ),
        train_dataset=blocks(ids[:split], args.block_size),
        eval_dataset=blocks(ids[split:], args.block_size),
    )
    result = trainer.train()
    print(f"loss {result.training_loss:.3f} in {result.metrics['train_runtime']:.1f} s")


if __name__ == "__main__":
    main()
