"""Writes HDF5 patches of filaments (training, validation), a U-Net config, two empty trackers."""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np
import yaml

SIZE = 32


def patch(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One patch with one to three bent filaments, its mask, and which pixels are labelled."""
    y, x = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    image = rng.gamma(2.0, 0.2, (SIZE, SIZE)).astype(np.float32)
    mask = np.zeros((SIZE, SIZE), dtype=bool)
    for _ in range(rng.integers(1, 4)):
        angle, shift, bend = rng.uniform(0, np.pi), rng.uniform(-10, 10), rng.uniform(-0.02, 0.02)
        u = (x - SIZE / 2) * np.cos(angle) + (y - SIZE / 2) * np.sin(angle)
        v = (y - SIZE / 2) * np.cos(angle) - (x - SIZE / 2) * np.sin(angle)
        far = np.abs(v - shift - bend * u * u)
        image += rng.uniform(0.5, 2.0) * np.exp(-(far**2) / 6)
        mask |= far < 1.5
    labelled = (rng.random((SIZE // 8, SIZE // 8)) < 0.6).repeat(8, 0).repeat(8, 1) | mask
    return image, mask, labelled


def write(path: Path, count: int, seed: int) -> None:
    """Write one file with patches, spines, labelled and positions."""
    rng = np.random.default_rng(seed)
    triples = [patch(rng) for _ in range(count)]
    with h5py.File(path, "w") as file:
        for name, part in zip(
            ("patches", "spines", "labelled"), zip(*triples, strict=True), strict=True
        ):
            file[name] = np.stack(part)[..., None].astype(np.float32)
        file["positions"] = rng.uniform(0, 1800, (count, 2, SIZE, SIZE)).astype(np.float32)


def dataset(name: str, *augmentations: dict[str, object]) -> dict[str, object]:
    """One data set of the config, as in the repository's config_model_unet.yml."""
    path = f"standin/{name}.h5"
    fixed = {"type": "FilamentsDataset", "name": name, "dataset_path": path, "stride": 8}
    steps = [{"type": "ToTensor"}, *augmentations]
    return fixed | {"normalization": "direct", "data_augmentations": steps}


def main(checkout: Path) -> None:
    """Write standin/, two empty modules for the trackers, and two edits."""
    folder = checkout / "standin"
    folder.mkdir(exist_ok=True)
    write(folder / "train.h5", 2048, 1)
    write(folder / "valid.h5", 512, 2)
    flips = ({"type": f"Random{way}Flip"} for way in ("Horizontal", "Vertical"))
    config = {"output_dir": "standin/run", "run_name": "unet2D", "epoch": 4} | {
        "batch_size": 32,
        "num_workers": 2,
        "model": yaml.safe_load((checkout / "configs/models/unet.yml").read_text())
        | {"features": 8},
        "optimizer": {"type": "Adam", "lr": 0.005},
        "scheduler": {"type": "MultiStepLR", "milestones": [10, 20, 30], "gamma": 0.1},
        "train_dataset": dataset("train", *flips),
        "val_dataset": dataset("valid"),
    }
    (folder / "config.yml").write_text(yaml.safe_dump(config, sort_keys=False))
    for name in ("optimizer", "scheduler"):  # unions and generics are refused by the schema
        module = checkout / f"lis2/{name}.py"
        text = module.read_text().replace("param_type = param.annotation", "param_type = Any")
        module.write_text(text.replace("            param.annotation\n", "            Any\n"))
    for name in ("mlflow", "wandb"):
        (checkout / f"{name}.py").write_text('"""A tracker that is not used."""\n')


if __name__ == "__main__":
    main(Path(sys.argv[1]))
