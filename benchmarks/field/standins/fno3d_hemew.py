"""Stand-in data for lehmannfa/HEMEW3D: half-size geologies and wave fields in its HDF5 layout."""

import sys
from pathlib import Path

import h5py
import numpy as np

SIZE, TIME, TRAIN, VAL = 16, 160, 40, 8


def waves(rng: np.random.Generator) -> np.ndarray:
    """Write one velocity component: ripples that arrive later far from a source, then decay."""
    grid = np.arange(SIZE)
    source = rng.uniform(0, SIZE, 2)
    away = np.hypot(grid[:, None] - source[0], grid[None, :] - source[1])[..., None]
    time = np.arange(TIME) - 12 - 3.0 * away
    rate = rng.uniform(0.2, 0.6)
    return (0.02 * np.sin(rate * time) * np.exp(-time / 40) * (time > 0)).astype(np.float32)


def main() -> None:
    """Write the two folders of samples; take out the argument that torch no longer knows."""
    models = Path(sys.argv[1]) / "models"
    rng = np.random.default_rng(3)
    number = 0
    for part, count in (("train", TRAIN), ("val", VAL)):
        folder = models / "inputs" / f"inputs3D_S{SIZE}_Z{SIZE}_T{TIME}_fmax5_{part}"
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "a_mean.npy", np.full((SIZE, SIZE, SIZE), 2700, np.float32))
        np.save(folder / "a_std.npy", np.full((SIZE, SIZE, SIZE), 700, np.float32))
        for _ in range(count):
            layers = np.sort(rng.uniform(1100, 4500, SIZE))
            ground = layers + 150 * rng.standard_normal((SIZE, SIZE, SIZE))
            with h5py.File(folder / f"sample{number}.h5", "w") as out:
                out.create_dataset("a", data=ground.astype(np.float32))
                for name in ("uE", "uN", "uZ"):
                    out.create_dataset(name, data=waves(rng))
            number += 1
    script = models / "train_fno3d.py"
    script.write_text(script.read_text().replace("patience=10, verbose=True)", "patience=10)"))


if __name__ == "__main__":
    main()
