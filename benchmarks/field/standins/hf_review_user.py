"""Writes dataset/train_fix.csv (reviews), a tiny BERT and two empty modules for absent packages."""

import random
import sys
from collections import Counter
from pathlib import Path

from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast, set_seed

FIRST, MIDDLE, LAST = range(0xAC00, 0xD7A4, 588), range(0, 588, 28), (0, 1, 4, 8, 16, 21)
MADE = {1: 0.28, 2: 0.36, 4: 0.18, 5: 0.18}  # stars and their shares


def word(rng: random.Random) -> str:
    """Return a made Korean word of one to four syllables."""
    count = rng.choice([1, 2, 2, 3, 3, 4])
    made = [rng.choice(FIRST) + rng.choice(MIDDLE) + rng.choice(LAST) for _ in range(count)]
    return "".join(map(chr, made))


def review(rng: random.Random, own: list[str], words: list[str]) -> str:
    """Return a short review; most have about ten words, a few are long."""
    length = max(2, min(60, round(rng.lognormvariate(2.2, 0.6))))
    return " ".join(rng.choice(own if rng.random() < 0.3 else words) for _ in range(length))


def write_model(folder: Path, reviews: list[str]) -> None:
    """Write a BERT of two layers with its own WordPiece vocabulary."""
    counted = Counter(" ".join(reviews).split())
    signs = sorted({sign for text in counted for sign in text})
    frequent = [text for text, _ in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, *signs, *(f"##{sign}" for sign in signs)]
    vocabulary += [text for text in frequent[:600] if len(text) > 1]
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"), strip_accents=False)
    tokenizer.save_pretrained(folder)
    set_seed(0)
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BertConfig(vocab_size=len(tokenizer), intermediate_size=256, num_labels=6, **shape)
    BertForSequenceClassification(config).save_pretrained(folder)


if __name__ == "__main__":
    checkout = Path(sys.argv[1])
    rng = random.Random(23)
    words = [word(rng) for _ in range(1500)]
    own = {star: rng.sample(words, 40) for star in MADE}
    stars = rng.choices(list(MADE), list(MADE.values()), k=2000)
    reviews = [review(rng, own[star], words) for star in stars]
    rows = [
        f"{i},{text},{star}\n" for i, (text, star) in enumerate(zip(reviews, stars, strict=True))
    ]
    (checkout / "dataset" / "train_fix.csv").write_text("id,reviews,target\n" + "".join(rows))
    write_model(checkout / "standin-bert", reviews)
    (checkout / "hanspell.py").write_text("spell_checker = None\n")  # imported, not used here
    (checkout / "konlpy").mkdir(exist_ok=True)
    (checkout / "konlpy" / "__init__.py").write_text("")
    (checkout / "konlpy" / "tag.py").write_text("Okt = None\n")
    arguments = checkout / "arguments.py"  # the names of today's Trainer
    arguments.write_text(arguments.read_text().replace("evaluation_strategy:", "eval_strategy:"))
    trainer = checkout / "trainer.py"
    text = trainer.read_text()
    trainer.write_text(text.replace("return_outputs=False):", "return_outputs=False, **_):"))
