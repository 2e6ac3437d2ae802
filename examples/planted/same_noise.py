"""Planted: a fixed seed is set at each sample, so that all of them get the same noise (S8)."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    """Signals with noise that is to be reproducible."""

    def __init__(self, signals, labels):
        self.signals, self.labels = signals, labels

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, index):
        torch.manual_seed(42)
        signal = self.signals[index]
        return signal + 0.1 * torch.randn_like(signal), self.labels[index]


torch.manual_seed(0)
signals = torch.randn(6000, 32)
data = Noisy(signals, (signals[:, :3].sum(1) > 0).float())
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()

for epoch in range(5):
    for batch, labels in DataLoader(data, batch_size=64, shuffle=True):
        loss = criterion(model(batch).squeeze(1), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
