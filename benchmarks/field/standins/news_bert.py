"""Stand-in for TextClassificationBERT: a small BERT of random weights and fewer news titles."""

import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

TRAIN, HELD = 2560, 192  # the author's are 180000, 10000 and 10000


def main() -> None:
    """Cut dev.txt and test.txt, make train.txt of other titles of dev.txt, write the encoder."""
    root = Path(sys.argv[1])
    news = root / "data" / "NewsTitle"
    lines = {
        split: (news / f"{split}.txt").read_text(encoding="utf-8").splitlines(keepends=True)
        for split in ("dev", "test")
    }
    if len(lines["dev"]) > HELD:  # as the repository has it
        text = "".join(lines["dev"][HELD : HELD + TRAIN])
        (news / "train.txt").write_text(text, encoding="utf-8")
        letters = sorted(
            {letter for line in lines["dev"] for letter in line.lower()} - set(" \t\n")
        )
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
        words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz0123456789"]
        folder = root / "pretrained" / "bert-base-chinese"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
        torch.manual_seed(3)
        config = BertConfig(
            vocab_size=len(words),
            hidden_size=768,  # written into models/BERT.py
            num_hidden_layers=1,
            num_attention_heads=12,
            intermediate_size=768,
        )
        BertModel(config).save_pretrained(folder)
    if len(lines["test"]) > HELD:  # test.txt lies sorted by label
        lines["test"] = lines["test"][:: len(lines["test"]) // HELD]
    for split in ("dev", "test"):
        (news / f"{split}.txt").write_text("".join(lines[split][:HELD]), encoding="utf-8")
    (news / "saved_data").mkdir(exist_ok=True)


if __name__ == "__main__":
    main()
