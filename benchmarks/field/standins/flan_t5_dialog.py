"""Writes dataset/dialog_dataset/*.csv in DialogSum's layout and a tiny T5 with its tokenizer."""

import csv
import random
import sys
from pathlib import Path

import words
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration, set_seed

SIZES = {"train": 160, "validation": 20, "test": 40}


def dialogue(rng: random.Random, known: list[str]) -> str:
    """Return some turns of two persons, some 95 words in all."""
    length, turns, spoken = round(rng.lognormvariate(4.4, 0.5)), [], 0
    while spoken < max(length, 30):
        count = rng.randint(5, 25)
        turns.append(f"#Person{len(turns) % 2 + 1}#: {words.sentence(rng, known, count)}.")
        spoken += count
    return "\n".join(turns)


def write_model(folder: Path, known: list[str]) -> None:
    """Write a T5 of two layers and a tokenizer that ends with </s>, at most 512 tokens."""
    names = ["<pad>", "</s>", "<unk>", *"abcdefghijklmnopqrstuvwxyzSCP#.:12"]
    vocabulary = dict.fromkeys([*names, *(f"##{name}" for name in names[3:]), *known])
    core = Tokenizer(models.WordPiece({t: i for i, t in enumerate(vocabulary)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    tokens = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=512, **tokens).save_pretrained(
        folder
    )
    set_seed(0)
    shape = {"d_model": 64, "d_kv": 16, "num_heads": 4, "d_ff": 170, "num_layers": 2}
    config = T5Config(
        vocab_size=len(vocabulary), feed_forward_proj="gated-gelu", tie_word_embeddings=False,
        decoder_start_token_id=0, **shape
    )  # fmt: skip
    T5ForConditionalGeneration(config).save_pretrained(folder)


if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), random.Random(11)
    known = words.made(rng, 1000)
    folder = checkout / "dataset" / "dialog_dataset"
    folder.mkdir(parents=True, exist_ok=True)
    for part, size in SIZES.items():
        with (folder / f"{part}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["id", "dialogue", "summary", "topic"])
            for row in range(size):
                length = max(8, round(rng.lognormvariate(3.3, 0.4)))
                topic = " ".join(rng.choices(known, k=2))
                summary = words.sentence(rng, known, length) + "."
                table.writerow([f"{part}_{row}", dialogue(rng, known), summary, topic])
    write_model(checkout / "model" / "flan-t5-base", known)
    script = checkout / "Fullfinetune.py"
    text = script.read_text().replace('"google/flan-t5-base"', '"./model/flan-t5-base"')
    script.write_text(text.replace("index=200", "index=20").replace("epochs=3", "epochs=2"))
