"""Stand-in data for romaintha/pytorch_pointnet: ShapeNet part annotation's text layout."""

import json
import sys
from pathlib import Path

import numpy as np

NAMES = ["Airplane", "Bag", "Cap", "Car", "Chair", "Earphone", "Guitar", "Knife"]
NAMES += ["Lamp", "Laptop", "Motorbike", "Mug", "Pistol", "Rocket", "Skateboard", "Table"]
COUNTS = {"train": 128, "test": 32}


def cloud(rng: np.random.Generator, kind: int) -> np.ndarray:
    """Draw a surface of 2000 to 2900 points (the data set's usual count), in the unit ball."""
    count = int(np.clip(rng.normal(2600, 180), 2000, 2950))
    points = rng.standard_normal((count, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points *= 0.2 + np.array([kind % 4, kind // 4, (kind * 5) % 7]) / 7
    return points / np.abs(points).max() * 0.5


def main() -> None:
    """Write 128 clouds to train and 32 to test; one savefig without its file name is mended."""
    checkout = Path(sys.argv[1])
    root = checkout / "shapenet"
    rng = np.random.default_rng(11)
    (root / "train_test_split").mkdir(parents=True, exist_ok=True)
    codes = [f"{2691156 + 1000 * kind:08}" for kind in range(len(NAMES))]
    lines = [f"{name}\t{code}\n" for name, code in zip(NAMES, codes, strict=False)]
    (root / "synsetoffset2category.txt").write_text("".join(lines))
    share = np.array([16, 1, 1, 5, 22, 1, 5, 2, 9, 3, 1, 1, 2, 1, 1, 31], dtype=float)
    for part, count in COUNTS.items():
        files = []
        for number in range(count):
            kind = int(rng.choice(len(NAMES), p=share / share.sum()))
            folder = root / codes[kind] / "points"
            folder.mkdir(parents=True, exist_ok=True)
            name = f"{part}{number:05}"
            np.savetxt(folder / f"{name}.pts", cloud(rng, kind), fmt="%.5f")
            files.append(f"shape_data/{codes[kind]}/{name}")
        listed = root / "train_test_split" / f"shuffled_{part}_file_list.json"
        listed.write_text(json.dumps(files))
    script = checkout / "utils.py"
    script.write_text(script.read_text().replace("fig.savefig()", "fig.savefig(save_to_file)"))


if __name__ == "__main__":
    main()
