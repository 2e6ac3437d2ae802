import copy
import json
import os
import numpy as np
import torch
import torch.nn as nn


class Finetuner:
    """Pretrains on task A (10 classes), then adapts to task B (4 classes)."""

    def __init__(self, seed=4):
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.model = nn.Sequential()
        self.model.add_module("features", nn.Sequential(
            nn.Conv1d(6, 48, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(48, 64, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()))
        self.model.add_module("classifier", nn.Linear(64, 10))
        self.loss = nn.CrossEntropyLoss()
        self.history = []

    def data(self, n, k, length=96):
        t = np.linspace(0, 1, length)
        y = self.rng.integers(0, k, n)
        freq = 3 + 2 * y[:, None, None] + self.rng.normal(0, 0.4, (n, 6, 1))
        x = np.sin(2 * np.pi * freq * t) + self.rng.normal(0, 0.8, (n, 6, length))
        return torch.tensor(x, dtype=torch.float32), torch.tensor(y)

    def run_epochs(self, opt, x, y, epochs, bs, tag):
        for ep in range(epochs):
            perm = torch.randperm(len(x))
            tot = correct = 0
            for i in range(0, len(x), bs):
                j = perm[i:i + bs]
                out = self.model(x[j])
                loss = self.loss(out, y[j])
                opt.zero_grad()
                loss.backward()
                opt.step()
                tot += loss.item() * len(j)
                correct += (out.argmax(1) == y[j]).sum().item()
            self.history.append((tag, ep, tot / len(x)))
            print(f"{tag} epoch {ep} loss {tot / len(x):.4f} acc {correct / len(x):.3f}")

    def freeze_features(self):
        for p in self.model.features.parameters():
            p.requires_grad = False

    def replace_head(self, k):
        self.model.classifier = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, k))


def main():
    ft = Finetuner()
    xa, ya = ft.data(4000, 10)
    ft.run_epochs(torch.optim.Adam(ft.model.parameters(), lr=2e-3), xa, ya, 6, 64, "A")

    xb, yb = ft.data(2500, 4)
    optimizer = torch.optim.Adam(ft.model.parameters(), lr=5e-4)
    ft.replace_head(4)
    ft.run_epochs(optimizer, xb, yb, 10, 64, "B")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data_history.json"), "w") as f:
        json.dump(ft.history, f)


if __name__ == "__main__":
    main()
