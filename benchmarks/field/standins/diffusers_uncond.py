"""Stand-in pictures and a small UNet config for diffusers' unconditional image generation."""

import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image

PICTURES, SIDES = 240, (480, 640)


def main() -> None:
    """Write 240 photo-sized JPEGs (imagefolder) and unet/config.json (two blocks)."""
    work = Path(sys.argv[1])
    rng = np.random.default_rng(17)
    folder = work / "flowers" / "train"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(PICTURES):
        short = int(rng.integers(SIDES[0], SIDES[1]))
        size = (short, int(short * rng.uniform(1.0, 1.5)))
        coarse = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        picture = Image.fromarray(coarse).resize(size if rng.random() < 0.3 else size[::-1], 3)
        grain = rng.normal(0, 6, (picture.height, picture.width, 1))
        pixels = np.clip(np.asarray(picture, dtype=np.float32) + grain, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"image_{number:05}.jpg", quality=90)
    config = {
        "_class_name": "UNet2DModel",
        "sample_size": 32,
        "in_channels": 3,
        "out_channels": 3,
        "layers_per_block": 1,
        "block_out_channels": [16, 32],
        "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
        "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
        "norm_num_groups": 8,
    }
    (work / "unet").mkdir(exist_ok=True)
    (work / "unet" / "config.json").write_text(json.dumps(config, indent=2))


if __name__ == "__main__":
    main()
