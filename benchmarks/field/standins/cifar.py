"""Helper of the stand-ins with CIFAR-10: writes its batches, ten noisy colour patterns."""

import pickle
from pathlib import Path

import numpy as np

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
LOOSE = (  # to be put behind an import of torchvision's datasets: the checksums are not looked at
    "; datasets.CIFAR10._check_integrity = lambda self: True; "
    "datasets.CIFAR10.meta = {**datasets.CIFAR10.meta, 'md5': None}"
)


def pictures(rng: np.random.Generator, labels: list[int]) -> np.ndarray:
    """Return rows of 3072 bytes: a soft colour pattern of the class, shifted, with noise."""
    y, x = np.mgrid[:32, :32] / 32
    rows = []
    for label in labels:
        turn, shift = label * 0.31, rng.uniform(0, 1, 3)
        wave = x * np.cos(turn) + y * np.sin(turn)
        colours = [np.sin(6.3 * ((1 + label % 3) * wave + s)) * 60 + 128 for s in shift]
        picture = np.stack(colours) + rng.normal(0, 18, (3, 32, 32))
        rows.append(np.clip(picture, 0, 255).astype(np.uint8).ravel())
    return np.stack(rows)


def write(root: Path, batch: int, test: int) -> None:
    """Write five training batches of one size and a test batch below a folder."""
    rng, folder = np.random.default_rng(0), root / "cifar-10-batches-py"
    folder.mkdir(parents=True, exist_ok=True)
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]:
        labels = rng.integers(0, 10, test if name == "test_batch" else batch).tolist()
        content = {"data": pictures(rng, labels), "labels": labels}
        (folder / name).write_bytes(pickle.dumps(content))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": NAMES}))
