# usage: python main.py [key=value ...] [--out DIR]      e.g. python main.py variant=small optim.args.lr=0.1
import os, sys

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

import conf
import parts

argv = sys.argv[1:]
out = "out"
if "--out" in argv:
    i = argv.index("--out")
    out = argv[i + 1]
    del argv[i : i + 2]
cfg = conf.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "conf.yaml"), argv)
torch.manual_seed(cfg.seed)

x, y = parts.draw(cfg.data.count, cfg.data.size, cfg.data.palette, np.random.default_rng(cfg.seed))
n_val = int(cfg.data.held_out * len(x))
train, val = random_split(TensorDataset(x, y), [len(x) - n_val, n_val])
# the pixel statistics come from the training part only
mean = x[train.indices].mean((0, 2, 3)).view(1, 3, 1, 1)
std = x[train.indices].std((0, 2, 3)).view(1, 3, 1, 1)
loader = DataLoader(train, cfg.train.batch, shuffle=True, drop_last=True)
val_loader = DataLoader(val, 128)
conf.resolve(cfg, steps=cfg.train.epochs * len(loader))

kwargs = {k: v for k, v in cfg.model.items() if k != "name"}
net = parts.MODELS[cfg.model.name](len(parts.KINDS), **cfg.variants[cfg.variant], **kwargs)
opt = getattr(torch.optim, cfg.optim.name)(net.parameters(), **cfg.optim.args)
sched = getattr(torch.optim.lr_scheduler, cfg.schedule.name)(opt, **cfg.schedule.args)
augs = [getattr(parts, name)(**a) for name, a in cfg.augment.items()]
print(cfg.name, cfg.variant, sum(p.numel() for p in net.parameters()), "parameters")

step = 0
for epoch in range(cfg.train.epochs):
    net.train()
    for xb, yb in loader:
        for aug in augs:
            xb = aug(xb)
        loss = F.cross_entropy(net((xb - mean) / std), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        step += 1
        if step % cfg.train.log_every == 0:
            print(f"  {step} loss {loss.item():.3f}")
    net.eval()
    right = 0
    with torch.no_grad():
        for xb, yb in val_loader:
            right += (net((xb - mean) / std).argmax(1) == yb).sum().item()
    print(f"epoch {epoch + 1} val accuracy {right / n_val:.3f}")

os.makedirs(out, exist_ok=True)
torch.save(
    {"net": net.state_dict(), "mean": mean, "std": std, "variant": cfg.variant},
    os.path.join(out, "shapes.pt"),
)
