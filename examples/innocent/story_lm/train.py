#!/usr/bin/env python
"""Train the tiny story model.

    python train.py --model tiny_gpt --stories stories.txt --out out

`tiny_gpt/` is laid out like any model folder (config, tokenizer, generation defaults), but has no weights:
the model starts from scratch and the trained folder is written to --out, ready for `pipeline("text-generation")`.
"""

import argparse
import json
import math
from pathlib import Path

from datasets import Dataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

HERE = Path(__file__).resolve().parent


def parse_args():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--model", default=str(HERE / "tiny_gpt"))
    p.add_argument("--stories", default=str(HERE / "stories.txt"))
    p.add_argument("--out", default="out")
    p.add_argument("--block", type=int, default=64)
    p.add_argument("--epochs", type=float, default=2)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args()


def check_folder(folder, block):
    """The three files of the folder have to agree with one another; it has bitten us before."""
    folder = Path(folder)
    tok = json.loads((folder / "tokenizer_config.json").read_text())
    conf = json.loads((folder / "config.json").read_text())
    gen = json.loads((folder / "generation_config.json").read_text())
    if tok["model_max_length"] < block:
        raise SystemExit(f"tokenizer allows {tok['model_max_length']} tokens, block is {block}")
    if conf["n_positions"] < block:
        raise SystemExit(f"model has {conf['n_positions']} positions, block is {block}")
    if conf["eos_token_id"] != gen["eos_token_id"]:
        raise SystemExit("config.json and generation_config.json disagree about the end token")


def main():
    args = parse_args()
    set_seed(args.seed)
    check_folder(args.model, args.block)

    tokenizer = AutoTokenizer.from_pretrained(args.model)
    config = AutoConfig.from_pretrained(args.model)
    model = AutoModelForCausalLM.from_config(config)
    model.generation_config = GenerationConfig.from_pretrained(args.model)
    print(
        f"{sum(p.numel() for p in model.parameters()):,} parameters, vocabulary of {len(tokenizer)}"
    )

    stories = [s for s in Path(args.stories).read_text().split("\n") if s]
    raw = Dataset.from_dict({"text": stories}).train_test_split(test_size=0.06, seed=args.seed)

    def tokenize(batch):
        return tokenizer(
            [t + tokenizer.eos_token for t in batch["text"]], return_attention_mask=False
        )

    def pack(batch):
        flat = [i for ids in batch["input_ids"] for i in ids]
        n = len(flat) // args.block * args.block
        rows = [flat[i : i + args.block] for i in range(0, n, args.block)]
        return {"input_ids": rows, "labels": [list(r) for r in rows]}

    packed = raw.map(tokenize, batched=True, remove_columns=["text"], desc="tokenizing")
    packed = packed.map(pack, batched=True, batch_size=2000, desc="packing")
    print(packed)

    targs = TrainingArguments(
        output_dir=args.out,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.batch,
        per_device_eval_batch_size=args.batch * 2,
        learning_rate=args.lr,
        lr_scheduler_type="cosine",
        warmup_steps=10,
        weight_decay=0.05,
        logging_steps=20,
        eval_strategy="epoch",
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        dataloader_pin_memory=False,
        seed=args.seed,
    )
    trainer = Trainer(
        model=model,
        args=targs,
        train_dataset=packed["train"],
        eval_dataset=packed["test"],
        data_collator=default_data_collator,
        processing_class=tokenizer,
    )
    trainer.train()
    loss = trainer.evaluate()["eval_loss"]
    print(f"held-out loss {loss:.3f}, perplexity {math.exp(loss):.2f}")
    trainer.save_model(args.out)


if __name__ == "__main__":
    main()
