"""Stand-in dogs for kvnptl/visual_perception (custom_object_detector): pictures and YOLO boxes."""

import shutil
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

BREEDS = [
    "n02085620-Chihuahua",
    "n02099601-golden_retriever",
    "n02102177-Welsh_springer_spaniel",
    "n02106662-German_shepherd",
    "n02107142-Doberman",
    "n02108089-boxer",
    "n02110185-Siberian_husky",
    "n02110958-pug",
    "n02112018-Pomeranian",
    "n02113186-Cardigan",
]
SIZES = [(500, 375), (375, 500), (500, 333), (500, 400), (640, 480)]
EDITS = {
    "config.py": [("BATCH_SIZE = 32", "BATCH_SIZE = 4"), ("EPOCHS = 50", "EPOCHS = 4")],
    "train.py": [
        ("torchvision.models.ResNet50_Weights.DEFAULT", "None"),
        (
            '"/home/kpatel2s/kpatel2s/object_detection/custom_object_detector/dataset/'
            'standford_dogs_mini_10/images"',
            "images_path",
        ),
    ],
    "utils.py": [
        ("random.randint(0, len(dataloader.dataset))", "random.randrange(len(dataloader.dataset))")
    ],
}


def main() -> None:
    """Write 80 JPEG (8 a breed) with one box each; sizes, weights and one path in the scripts."""
    folder = Path(sys.argv[1]) / "object_detection" / "custom_object_detector"
    data = folder / "dataset" / "standford_dogs_mini_10"
    shutil.rmtree(data, ignore_errors=True)
    rng = np.random.default_rng(5)
    for label, breed in enumerate(BREEDS):
        images, boxes = data / "images" / breed, data / "yolo" / "annotations" / breed
        images.mkdir(parents=True)
        boxes.mkdir(parents=True)
        for number in range(8):
            width, height = SIZES[int(rng.integers(len(SIZES)))]
            ground = rng.integers(0, 255, (height // 8, width // 8, 3), dtype=np.uint8)
            image = Image.fromarray(ground).resize((width, height), Image.Resampling.BICUBIC)
            w, h = rng.uniform(0.4, 0.8, 2)
            x, y = rng.uniform(w / 2, 1 - w / 2), rng.uniform(h / 2, 1 - h / 2)
            corners = [(x - w / 2) * width, (y - h / 2) * height]
            corners += [(x + w / 2) * width, (y + h / 2) * height]
            ImageDraw.Draw(image).ellipse(corners, fill=(25 * label, 250 - 20 * label, 90))
            image.save(images / f"{breed[:9]}_{number}.jpg", quality=90)
            line = f"{label} {x:.6f} {y:.6f} {w:.6f} {h:.6f}\n"
            (boxes / f"{breed[:9]}_{number}.txt").write_text(line, encoding="utf-8")
    for name, edits in EDITS.items():
        text = (folder / name).read_text(encoding="utf-8")
        for old, new in edits:
            text = text.replace(old, new)
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
