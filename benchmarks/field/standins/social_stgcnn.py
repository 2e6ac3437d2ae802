"""Writes datasets/standin/{train,val}: walks of about eight pedestrians, 340 + 80 frames (ETH)."""

import random
import sys
from pathlib import Path

CROWD = 8


def walks(rng: random.Random, frames: int) -> str:
    """Return lines "frame, pedestrian, x, y"; who leaves is replaced by another one."""
    lines, people, number = [], [], 0
    for frame in range(frames):
        people = [walker for walker in people if frame < walker["until"]]
        while len(people) < CROWD:
            number += 1
            stay = rng.randint(30, 80)
            speed = rng.gauss(0.0, 0.4), rng.gauss(0.0, 0.4)
            x, y = rng.uniform(0, 14), rng.uniform(0, 11)
            people.append({"who": number, "until": frame + stay, "x": x, "y": y, "v": speed})
        for walker in people:
            lines.append(f"{frame * 10.0}\t{walker['who']}.0\t{walker['x']:.2f}\t{walker['y']:.2f}")
            dx, dy = (part + rng.gauss(0, 0.05) for part in walker["v"])
            walker["v"] = dx, dy
            walker["x"] += dx
            walker["y"] += dy
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    checkout = Path(sys.argv[1])
    rng = random.Random(13)
    for part, frames in (("train", (170, 170)), ("val", (80,))):
        folder = checkout / "datasets" / "standin" / part
        folder.mkdir(parents=True, exist_ok=True)
        for number, count in enumerate(frames):
            (folder / f"walk{number}_{part}.txt").write_text(walks(rng, count))
    script = checkout / "train.py"  # no GPU
    script.write_text(script.read_text().replace(".cuda()", ""))
    module = checkout / "utils.py"  # the name in today's networkx
    module.write_text(module.read_text().replace("from_numpy_matrix", "from_numpy_array"))
