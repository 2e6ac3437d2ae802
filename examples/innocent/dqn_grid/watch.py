"""Shows a trained agent in the terminal: python watch.py [episodes]"""

import json
import sys
import time

import torch

from train import HERE, Dueling
from world import Garden

h = json.loads((HERE / "hparams.json").read_text())
net = Dueling(Garden.n_actions, h["width"])
net.load_state_dict(torch.load(HERE / "out" / "best.pt"))
env = Garden(77)
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
    o, over = env.reset(), False
    while not over:
        grid = [["." for _ in range(env.N)] for _ in range(env.N)]
        for plane, mark in ((2, "~"), (1, "k"), (0, "@")):
            for y, x in zip(*o[plane].nonzero()):
                grid[y][x] = mark
        print(
            "\n".join("".join(m * max(1, h["render_scale"] // 16) for m in row) for row in grid),
            "\n",
        )
        time.sleep(1 / h["render_fps"])
        with torch.no_grad():
            o, _, dead, cut = env.step(net(torch.from_numpy(o)[None]).argmax(1).item())
        over = dead or cut
