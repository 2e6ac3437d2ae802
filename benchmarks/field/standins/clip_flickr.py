"""Writes flickr8k and flickr30k in Kaggle's layout, a WordPiece tokenizer, and a small CLIP."""

import random
import sys
from pathlib import Path

import numpy as np
import words
from PIL import Image

SIZES = {"flickr8k": 80, "flickr30k": 160}
SMALL = (("N_LAYERS: 12", 4), ("N_LAYERS: 6", 2), ("N_HEADS: 12", 4), ("DIM: 768", 128))


def picture(rng: np.random.Generator) -> Image.Image:
    """Return soft shapes with noise, 500 x 375 or turned, as most of the true pictures are."""
    width, height = (500, 375) if rng.random() < 0.7 else (333, 500)
    soft = Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8))
    pixels = np.asarray(soft.resize((width, height), Image.Resampling.BICUBIC), np.float32)
    noise = rng.normal(0, 12, pixels.shape)
    return Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8))


if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), random.Random(3)
    paint, known = np.random.default_rng(3), words.made(rng, 1500)
    for name, count in SIZES.items():
        images = checkout / "standin" / name / "Images"
        images.mkdir(parents=True, exist_ok=True)
        lines = ["image,caption"]
        for at in range(count):
            file = f"{1000000000 + 7919 * at}_{rng.getrandbits(40):010x}.jpg"
            picture(paint).save(images / file, quality=90)
            for _ in range(5):
                length = max(4, round(rng.gauss(11, 3.5)))
                lines.append(f"{file},{words.sentence(rng, known, length)} .")
        (images.parent / "captions.txt").write_text("\n".join(lines) + "\n")
    words.bert_tokenizer(known, 512).save_pretrained(checkout / "standin" / "distilbert")
    for file, edits in {
        "configs/flickr.yaml": [(old, old.split()[0] + f" {new}") for old, new in SMALL]
        + [("MLP_DIM: 3072", "MLP_DIM: 512"), ("SIZE: 30522", "SIZE: 1600")],
        "utils.py": [('"distilbert-base-uncased"', '"standin/distilbert"')],
        "train_clip.py": [("apply_seed(CONFIG.SEED)", 'apply_seed(CONFIG["SEED"])')],
        "model.py": [("set_requires_grad, l2_norm", "set_requires_grad")],
        "data/flickr.py": [("from data_augmentation", "from data.data_augmentation")],
    }.items():
        text = (checkout / file).read_text()
        for old, new in edits:
            text = text.replace(old, new)
        (checkout / file).write_text(text)
