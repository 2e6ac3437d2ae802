"""Stand-in for Continuous-Recurrent-Units: fewer pendulum films, drawn by the repository."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

TRAIN, TEST, STEPS, RATE = 100, 40, 100, 0.5  # the authors' are 2000 and 1000 of 100


def main() -> None:
    """Write data/pendulum/pend_interpolation_ir0.5.npz (24 x 24 images, half of them left out)."""
    root = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(root))
    if not hasattr(Image, "ANTIALIAS"):  # the drawing was written for an older Pillow
        Image.ANTIALIAS = Image.LANCZOS
    from lib.pendulum_generation import Pendulum

    settings = Pendulum.pendulum_default_params()
    settings[Pendulum.FRICTION_KEY] = 0.1
    pendulum = Pendulum(
        24,
        observation_mode=Pendulum.OBSERVATION_MODE_LINE,
        transition_noise_std=0.1,
        observation_noise_std=1e-5,
        seed=42,
        pendulum_params=settings,
    )
    made = {}
    for split, count in (("train", TRAIN), ("test", TEST)):
        films, _, _, _, times = pendulum.sample_data_set(count, STEPS, full_targets=False)
        films = np.expand_dims(films, -1)
        valid = pendulum.random.rand(count, STEPS, 1) > RATE
        valid[:, :5] = True
        made[f"{split}_targets"] = films.copy()
        films[np.logical_not(valid[..., 0])] = 0
        made[f"{split}_obs"], made[f"{split}_obs_valid"], made[f"{split}_ts"] = films, valid, times
    folder = root / "data" / "pendulum"
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / f"pend_interpolation_ir{RATE}.npz", **made)


if __name__ == "__main__":
    main()
