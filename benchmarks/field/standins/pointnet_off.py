"""Writes ModelNet10's layout: ten classes of OFF meshes, 12 to train and 4 to test in each.

The number of vertices varies as in the data set (a wide spread around some thousands).
"""

import sys
from pathlib import Path

import numpy as np

NAMES = ["bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa"]
NAMES += ["table", "toilet"]
random = np.random.default_rng(0)


def mesh(path: Path, stretch: np.ndarray) -> None:
    """Write a closed surface of triangles over a grid of angles."""
    around = int(np.clip(random.lognormal(3.6, 0.5), 12, 120))
    up = int(np.clip(random.lognormal(3.4, 0.5), 10, 100))
    a, b = np.meshgrid(np.linspace(0, 2 * np.pi, around), np.linspace(0, np.pi, up))
    points = np.stack([np.cos(a) * np.sin(b), np.sin(a) * np.sin(b), np.cos(b)], -1)
    points = points.reshape(-1, 3) * stretch + random.normal(0, 0.01, (around * up, 3))
    faces = []
    for i in range(up - 1):
        for j in range(around - 1):
            k = i * around + j
            faces += [(k, k + 1, k + around), (k + 1, k + around + 1, k + around)]
    lines = ["OFF", f"{len(points)} {len(faces)} 0"]
    lines += [" ".join(f"{x:.6f}" for x in point) for point in points]
    lines += ["3 {} {} {}".format(*face) for face in faces]
    path.write_text("\n".join(lines) + "\n")


root = Path(sys.argv[1], "data", "ModelNet10")
for kind, name in enumerate(NAMES):
    for part, count in (("train", 12), ("test", 4)):
        folder = root / name / part
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            stretch = 1 + np.array([kind % 3, kind // 3 % 3, kind % 4]) * 0.7
            mesh(folder / f"{name}_{number:04}.off", stretch * 20)
