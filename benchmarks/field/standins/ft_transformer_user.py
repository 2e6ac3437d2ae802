"""Writes data/standin (eight columns, housing-like), yaml/standin.yaml (5 epochs), output/."""

import json
import sys
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), np.random.default_rng(0)
    data = checkout / "data" / "standin"
    data.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", 6144), ("val", 1536), ("test", 1920)):
        income, age = rng.lognormal(1.25, 0.45, count), rng.integers(1, 53, count)
        rooms, beds = rng.lognormal(1.6, 0.25, count), rng.lognormal(0.07, 0.1, count)
        people, share = rng.lognormal(7, 0.7, count), rng.lognormal(1.05, 0.25, count)
        north, west = rng.uniform(32.5, 42, count), rng.uniform(-124.3, -114.3, count)
        table = np.stack([income, age, rooms, beds, people, share, north, west], 1)
        price = 0.45 * income + 0.008 * age - 0.2 * share - 0.3 * np.abs(north - 37) / 5
        price = np.clip(price + rng.normal(1, 0.4, count), 0.15, 5)
        np.save(data / f"N_{split}.npy", table.astype(np.float32))
        np.save(data / f"y_{split}.npy", price.astype(np.float64))
    (data / "info.json").write_text(json.dumps({"task_type": "regression", "n_num_features": 8}))
    config = (checkout / "yaml" / "california_housing.yaml").read_text()
    config = config.replace("epochs : 1000\n", "epochs : 5\n")
    (checkout / "yaml" / "standin.yaml").write_text(config)
    kept = checkout / "output" / "ft-transformer" / "standin" / "default"
    kept.mkdir(parents=True, exist_ok=True)
    (checkout / "wandb").mkdir(exist_ok=True)
    (checkout / "wandb" / "settings").write_text("[default]\nmode = offline\n")
