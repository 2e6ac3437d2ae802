"""Stand-in for luming: chat conversations, and a small Qwen3 of random weights."""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

ROWS = 480
TOPICS = [
    "the weather",
    "cooking rice",
    "a train journey",
    "learning to swim",
    "an old bicycle",
    "the history of paper",
    "planting tomatoes",
    "a job interview",
    "the night sky",
    "saving money",
]
ASKS = [
    "Tell me about {}.",
    "Could you write a short note on {}?",
    "What should I know about {}?",
    "Give me three tips about {}.",
    "Explain {} to a child.",
    "Summarise the main points of {}.",
]
SENTENCES = [
    "When it comes to {}, patience is worth more than speed.",
    "Many people underestimate {}.",
    "First, write down what you already know about {}.",
    "A friend once said that {} changed her life.",
    "In short, {} is simpler than it looks.",
    "There are several ways to look at {}.",
    "It helps to read a little about {} every day.",
    "Finally, remember to enjoy {}.",
]


def main() -> None:
    """Write 480 conversations of one to three turns (mean about 130 tokens) and the model."""
    folder = Path(sys.argv[1])
    rng = np.random.default_rng(41)
    (folder / "dataset").mkdir(exist_ok=True)
    with open(folder / "dataset" / "sft_mini.jsonl", "w") as file:
        for _ in range(ROWS):
            turns = []
            for _ in range(int(rng.choice([1, 2, 3], p=[0.6, 0.3, 0.1]))):
                topic = TOPICS[rng.integers(len(TOPICS))]
                ask = ASKS[rng.integers(len(ASKS))].format(topic)
                count = int(np.clip(rng.lognormal(1.2, 0.7), 1, 14))
                answer = " ".join(
                    SENTENCES[at].format(topic) for at in rng.integers(len(SENTENCES), size=count)
                )
                turns += [
                    {"role": "user", "content": ask},
                    {"role": "assistant", "content": answer},
                ]
            file.write(json.dumps({"conversations": turns}) + "\n")
    torch.manual_seed(41)
    config = Qwen3Config(
        vocab_size=6400,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder / "out" / "tiny_qwen")


if __name__ == "__main__":
    main()
