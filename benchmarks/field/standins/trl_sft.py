"""Writes Qwen/Qwen2.5-0.5B (two random layers, own tokenizer) and trl-lib/Capybara (168 talks)."""

import json
import random
import sys
from pathlib import Path

import torch
import words
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), random.Random(0)
    known = words.made(rng, 1500)
    talks = []
    for _ in range(168):
        left = min(353, max(9, rng.lognormvariate(4.63, 0.62))) / 1.27  # words; a token is less
        talk = []
        for role in ["user", "assistant"] * rng.choice([1, 1, 2, 3]):
            count = max(3, round(left * (0.12 if role == "user" else 0.55)))
            left -= count
            talk.append({"role": role, "content": words.sentence(rng, known, count)})
        talk[-1]["content"] += " " + words.sentence(rng, known, max(1, round(left)))
        talks.append({"source": "made up", "messages": talk, "num_turns": len(talk) // 2})
    data = checkout / "trl-lib" / "Capybara"
    data.mkdir(parents=True, exist_ok=True)
    (data / "train.jsonl").write_text("".join(json.dumps(talk) + "\n" for talk in talks))
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=1900, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator([m["content"] for t in talks for m in t["messages"]], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=SPECIAL[0], pad_token=SPECIAL[0], model_max_length=1024
    )
    tokenizer.chat_template = TEMPLATE
    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True}
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    config = Qwen2Config(vocab_size=len(tokenizer), max_position_embeddings=1024, **sizes, **ends)
    model = checkout / "Qwen" / "Qwen2.5-0.5B"
    Qwen2ForCausalLM(config).save_pretrained(model)
    tokenizer.save_pretrained(model)
    script = checkout / "sft_qwen.py"
    text = script.read_text().replace("trl import SFTTrainer", "trl import SFTConfig, SFTTrainer")
    settings = ', args=SFTConfig("Qwen2.5-0.5B-SFT", use_cpu=True),\n'
    script.write_text(text.replace("=dataset,\n", "=dataset" + settings))
