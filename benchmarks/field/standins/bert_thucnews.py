"""Stand-in for Bert-Chinese-Text-Classification: headlines and a small BERT, random weights."""

import json
import sys
from pathlib import Path

import torch

TRAIN, DEV, TEST = 2500, 500, 500
CONFIG = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 192,
    "initializer_range": 0.02,
    "intermediate_size": 768,
    "max_position_embeddings": 512,
    "num_attention_heads": 6,
    "num_hidden_layers": 3,
    "type_vocab_size": 2,
}
BLOCK = "bert.encoder.layer.{}."


def main() -> None:
    """Cut the repository's own 20000 headlines into train, dev and test; write the BERT."""
    folder = Path(sys.argv[1])
    data = folder / "THUCNews" / "data"
    kept = (
        folder / "THUCNews" / "headlines.txt"
    )  # the repository's dev and test, kept for a second call
    if not kept.exists():
        lines = [
            line
            for name in ("dev.txt", "test.txt")
            for line in (data / name).read_text("utf-8").splitlines()
        ]
        kept.write_text("\n".join(lines) + "\n", "utf-8")
    lines = [line for line in kept.read_text("utf-8").splitlines() if line.count("\t") == 1]
    at = 0
    for name, count in (("train", TRAIN), ("dev", DEV), ("test", TEST)):
        (data / f"{name}.txt").write_text("\n".join(lines[at : at + count]) + "\n", "utf-8")
        at += count
    (folder / "THUCNews" / "saved_dict").mkdir(exist_ok=True)
    letters = sorted({letter for line in lines for letter in line.lower() if not letter.isspace()})
    words = (
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        + letters
        + [f"##{letter}" for letter in letters if letter.isascii()]
    )
    where = folder / "bert_pretrain"
    (where / "vocab.txt").write_text("\n".join(words) + "\n", "utf-8")
    config = dict(CONFIG, vocab_size=len(words))
    (where / "bert_config.json").write_text(json.dumps(config))
    torch.manual_seed(51)
    wide, inner = config["hidden_size"], config["intermediate_size"]
    shapes = {
        "bert.embeddings.word_embeddings.weight": (len(words), wide),
        "bert.embeddings.position_embeddings.weight": (512, wide),
        "bert.embeddings.token_type_embeddings.weight": (2, wide),
        "bert.pooler.dense.weight": (wide, wide),
    }
    for layer in range(config["num_hidden_layers"]):
        for name in ("query", "key", "value"):
            shapes[BLOCK.format(layer) + f"attention.self.{name}.weight"] = (wide, wide)
        shapes[BLOCK.format(layer) + "attention.output.dense.weight"] = (wide, wide)
        shapes[BLOCK.format(layer) + "intermediate.dense.weight"] = (inner, wide)
        shapes[BLOCK.format(layer) + "output.dense.weight"] = (wide, inner)
    torch.save(
        {name: 0.02 * torch.randn(shape) for name, shape in shapes.items()},
        where / "pytorch_model.bin",
    )
    model = folder / "models" / "bert.py"  # the width that the classifier's settings must know
    model.write_text(
        model.read_text("utf-8").replace("self.hidden_size = 768", f"self.hidden_size = {wide}"),
        "utf-8",
    )


if __name__ == "__main__":
    main()
