"""Writes data/balls (three balls in Blender's layout), config/blender/balls.yaml, for the CPU."""

import json
import sys
from pathlib import Path

import numpy as np
import yaml
from PIL import Image

SIZE, ANGLE = 100, 0.6911112070083618
BALLS = [((0, 0, 0), 0.7, (220, 60, 50)), ((0.9, 0.3, 0.2), 0.4, (50, 170, 80))]
BALLS += [((-0.5, 0.8, -0.2), 0.5, (60, 90, 210))]
SMALL = {"n_layer": 8, "n_dim": 64, "n_sample_ray": 256, "n_sample_point": 24}
SMALL |= {"n_sample_point_fine": 24, "n_iters": 240, "precrop_iters": 50, "val_freq": 120}
SMALL |= {"save_freq": 120, "half_res": False, "exp_base": "ckpt/blender/balls"}


def camera(azimuth: float, height: float) -> np.ndarray:
    """Return the pose of a camera that looks at the origin from a distance of 4."""
    back = np.array([np.cos(azimuth) * np.cos(height), np.sin(azimuth) * np.cos(height)])
    back = np.array([*back, np.sin(height)])
    right = np.cross([0, 0, 1], back)
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3] = np.stack([right, np.cross(back, right), back, back * 4], 1)
    return pose


def picture(pose: np.ndarray) -> Image.Image:
    """Return the balls as seen by a camera: nearest hit, shaded from above, RGBA."""
    at = (np.arange(SIZE) - SIZE / 2 + 0.5) / (0.5 * SIZE / np.tan(ANGLE / 2))
    x, y = np.meshgrid(at, -at)
    rays = np.stack([x, y, -np.ones_like(x)], -1) @ pose[:3, :3].T
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    origin, nearest = pose[:3, 3], np.full((SIZE, SIZE), np.inf)
    out = np.zeros((SIZE, SIZE, 4))
    for centre, radius, colour in BALLS:
        towards = rays @ (origin - centre)
        inside = towards**2 - ((origin - centre) ** 2).sum() + radius**2
        depth = -towards - np.sqrt(np.maximum(inside, 0))
        hit = (inside > 0) & (depth < nearest)
        normal = (origin + rays * depth[..., None] - centre) / radius
        light = 0.4 + 0.6 * np.clip(normal @ [0.3, 0.2, 0.93], 0, 1)
        out[hit] = np.concatenate([light[..., None] * colour, np.full((SIZE, SIZE, 1), 255)], -1)[
            hit
        ]
        nearest[hit] = depth[hit]
    return Image.fromarray(out.astype(np.uint8))


if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), np.random.default_rng(0)
    data, configs = checkout / "data" / "balls", checkout / "config" / "blender"
    for split, count in (("train", 20), ("val", 4)):
        (data / split).mkdir(parents=True, exist_ok=True)
        frames = []
        for number in range(count):
            pose = camera(rng.uniform(0, 6.28), rng.uniform(0.1, 1.3))
            picture(pose).save(data / split / f"r_{number}.png")
            path = f"./{split}/r_{number}"
            frames.append({"file_path": path, "transform_matrix": pose.tolist()})
        meta = {"camera_angle_x": ANGLE, "frames": frames}
        (data / f"transforms_{split}.json").write_text(json.dumps(meta))
    config = yaml.safe_load((configs / "lego.yaml").read_text())
    config |= SMALL | {"data_root": "data/balls"}
    (configs / "balls.yaml").write_text(yaml.safe_dump(config))
    script = checkout / "train_nerf.py"
    script.write_text(script.read_text().replace("'torch.cuda.FloatTensor'", "'torch.FloatTensor'"))
    cameras = checkout / "camera.py"
    cameras.write_text(cameras.read_text().replace(".clamp(min=0.) ", ".clamp(min=0) "))
