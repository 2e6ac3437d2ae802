"""Writes examples/olora_finetuning/standin: a random 4-layer Llama and 816 rows like Alpaca's."""

import json
import random
import sys
from pathlib import Path

import torch
import words
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<unk>", "<s>", "</s>"]

if __name__ == "__main__":
    folder = Path(sys.argv[1]) / "examples" / "olora_finetuning" / "standin"
    rng = random.Random(0)
    known, rows = words.made(rng, 1500), []
    for _ in range(816):
        asked, said = rng.gauss(12, 4), rng.lognormvariate(4.0, 0.9)
        row = {"instruction": words.sentence(rng, known, max(4, round(asked))), "input": ""}
        row["output"] = words.sentence(rng, known, min(300, max(2, round(said))))
        rows.append(row)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1000, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator([f"{row['instruction']}\n{row['output']}" for row in rows], trainer)
    tokens = dict(zip(("unk_token", "bos_token", "eos_token"), SPECIAL, strict=True))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, model_max_length=512, **tokens)
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 352, "num_hidden_layers": 4}
    sizes |= {"num_attention_heads": 4, "max_position_embeddings": 512}
    ends = {"bos_token_id": 1, "eos_token_id": 2}
    config = LlamaConfig(vocab_size=len(tokenizer), **sizes, **ends)
    LlamaForCausalLM(config).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
