"""Writes RSICD's layout: 70 pictures of 224 x 224 with five captions each, and untrained weights.

Captions have 5 to 34 words of some 900, most about 11, as the data set's. config.py: batch 4, 24
iterations and an evaluation at the last, on the one validation picture.
"""

import json
import random
import sys
from pathlib import Path

import cv2
import numpy as np
import torch

folder = Path(sys.argv[1], "attention-model")
random.seed(0)
numbers = np.random.default_rng(0)
words = [
    "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9)))
    for _ in range(900)
]
pictures = folder / "data" / "RSICD" / "RSICD_images"
pictures.mkdir(parents=True, exist_ok=True)
images = []
for number in range(70):
    coarse = numbers.integers(0, 255, (14, 14, 3), dtype=np.uint8)
    name = f"airport_{number}.jpg"
    cv2.imwrite(str(pictures / name), cv2.resize(coarse, (224, 224), interpolation=cv2.INTER_CUBIC))
    split = "train" if number < 60 else "val" if number < 61 else "test"
    sentences = []
    for _ in range(5):
        length = min(34, max(5, round(random.gauss(11, 4))))
        length = 34 if number == 0 else length  # the script counts on a longest row of 35
        picked = random.choices(words, weights=[1 / (rank + 1) for rank in range(900)], k=length)
        sentences.append({"raw": " ".join(picked) + " ."})
    images.append({"filename": name, "split": split, "sentences": sentences})
(pictures.parent / "dataset_rsicd.json").write_text(
    json.dumps({"images": images, "dataset": "rsicd"})
)
config = folder / "config.py"
text = config.read_text().replace("batch_size = 100", "batch_size = 4")
text = text.replace("train_iter = 60001", "train_iter = 24").replace(
    "save_model_iter = 400", "save_model_iter = 24"
)
config.write_text(text)
for name in ("models/train", "result"):
    (folder / name).mkdir(parents=True, exist_ok=True)
sys.path.insert(0, str(folder))
from MobileNetV2 import MobileNetV2  # noqa: E402

torch.manual_seed(0)
torch.save(MobileNetV2(n_class=1000).state_dict(), folder / "models" / "mobilenet_v2.pth.tar")
