"""Planted: settings that are misspelt, lost on the way, or ignored by torch (C3, C4, C5)."""

from pathlib import Path

import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

config = yaml.safe_load(Path(__file__).with_name("asked_in_vain.yaml").read_text())
training = config["training"]

torch.manual_seed(0)
rows = TensorDataset(torch.randn(2_048, 32), torch.randint(4, (2_048,)))
loader = DataLoader(rows, batch_size=64, shuffle=True)  # num_workers was to come
print(f"{training['num_workers']} workers read the data")
layer = nn.TransformerEncoderLayer(32, 4, 64, norm_first=True, batch_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 1), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(
    model.parameters(), lr=float(training["lr"]), weight_decay=training.get("weight_decay", 0.01)
)
scaler = torch.cuda.amp.GradScaler()

for epoch in range(2):
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs[None])[0], labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), training.get("max_grad_norm", 1.0))
        scaler.step(optimizer)
        scaler.update()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
