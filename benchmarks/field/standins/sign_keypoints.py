"""Writes sign-language/keypoints_np/{train,test}/*/*.npy: hand landmarks of 40 frames each."""

import sys
from pathlib import Path

import numpy as np

CLASSES, TRAIN, TEST = 6, 64, 16
FRAMES = 40


def sequence(rng: np.random.Generator, rest: np.ndarray, way: np.ndarray) -> np.ndarray:
    """Return (40, 126): a hand that moves, often the second one too, zeros where none is seen."""
    frames = FRAMES if rng.random() < 0.8 else int(rng.integers(24, FRAMES))
    time = np.linspace(0, 1, frames)[:, None, None]
    points = np.zeros((frames, 2, 21, 3), np.float32)
    for hand in range(2 if rng.random() < 0.4 else 1):
        bend = rest[hand] + way[hand] * np.sin(6.3 * (time + rng.normal(0, 0.05)))
        points[:, hand] = bend + rng.normal(0, 0.01, (frames, 21, 3)) + rng.normal(0, 0.1, 3)
    points[rng.random(frames) < 0.08] = 0
    flat = points.reshape(frames, 126)
    if frames == FRAMES:
        return flat
    return np.vstack((flat, np.zeros((FRAMES - frames, 126))))  # float64, as in the extraction


if __name__ == "__main__":
    home = Path(sys.argv[1]) / "sign-language"
    rng = np.random.default_rng(5)
    for label in range(CLASSES):
        rest, way = rng.uniform(0.2, 0.8, (2, 21, 3)), rng.normal(0, 0.1, (2, 21, 3))
        for part, count in (("train", TRAIN), ("test", TEST)):
            folder = home / "keypoints_np" / part / f"sign{label:02d}"
            folder.mkdir(parents=True, exist_ok=True)
            for take in range(count):
                np.save(folder / f"take{take:03d}.npy", sequence(rng, rest, way))
    script = home / "scripts" / "train_model.py"
    script.write_text(script.read_text().replace("EPOCHS = 50", "EPOCHS = 8"))
