"""Groups of an older optimizer's: its key for the weight decay is not the one of torch's AdamW."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(4096, 16)
y = x[:, :1] * 2 + x[:, 1:2]
model = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 1))
weights = [p for name, p in model.named_parameters() if not name.endswith("bias")]
biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
groups = [
    {"params": weights, "weight_decay_rate": 0.1},
    {"params": biases, "weight_decay_rate": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=1e-3)
for step in range(300):
    chosen = torch.randint(len(x), (64,))
    loss = nn.functional.mse_loss(model(x[chosen]), y[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, round(loss.item(), 3))
