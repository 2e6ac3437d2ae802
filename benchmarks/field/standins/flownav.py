"""Stand-in data for yanjiarun/FlowNav-FW: one flown episode of camera pictures and headings."""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

COUNT = 80  # with 1 picture and 16 future steps in each sample: 64 samples


def main() -> None:
    """Write 640 x 480 pictures (sky, ground, a target that moves) and an angle for each."""
    root = Path(sys.argv[1], "data", "data_flow_nav", "episode_1")
    (root / "imgs").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    angles = np.clip(np.cumsum(rng.normal(0, 3, COUNT)), -60, 60)
    ground = rng.integers(60, 140, (480, 640, 3)).astype(np.float32)
    rows, columns = np.mgrid[0:480, 0:640]
    for number, angle in enumerate(angles):
        horizon = 220 + angle / 4 + (columns - 320) * np.tan(np.radians(angle / 6))
        sky = np.stack([120 + rows / 8, 150 + rows / 8, 230 - rows / 8], -1)
        moved = np.roll(ground, (7 * number, int(5 * angle)), (0, 1))
        picture = np.where((rows < horizon)[..., None], sky, moved)
        middle = 320 + angle * 5
        picture[(abs(columns - middle) < 25) & (abs(rows - 260) < 20)] = (200, 30, 30)
        named = root / "imgs" / f"image_{number:05}.png"
        Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8)).save(named, compress_level=1)
    np.save(root / "commands.npy", angles)


if __name__ == "__main__":
    main()
