"""bf16 autocast with a GradScaler, accumulation of three, clipping, and one infinite gradient.

Corner: the scaler skips a step; scale, skipped steps and losses are printed to the last digit.
"""

from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(11)
x = torch.randn(240, 10)
loader = DataLoader(TensorDataset(x, x[:, :2].prod(1)), batch_size=10, shuffle=True, drop_last=True)
model = nn.Sequential(nn.Linear(10, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=16)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=4)
window, steps = 3, 0
for epoch in range(2):
    for index, (rows, targets) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            guess = model(rows).squeeze(1)
            loss = nn.functional.mse_loss(guess.float(), targets) / window
        scaler.scale(loss).backward()
        if epoch == 1 and index == 4:
            model[0].weight.grad[0, 0] = float("inf")
        if (index + 1) % window:
            continue
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if scaler.get_scale() >= before:
            schedule.step()
            steps += 1
        print(guess.dtype, loss.item(), norm.item(), scaler.get_scale(), schedule.get_last_lr()[0])
print("steps taken:", steps)
Path("out").mkdir(exist_ok=True)
torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, "out/mixed.pt")
