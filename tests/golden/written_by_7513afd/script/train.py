"""A classifier of random rows, whose dataset makes each row anew in Python."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        row = torch.tensor([((index * 7 + k * k) % 97) / 97 for k in range(12000)])
        return row[:64], index % 2


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(Rows(), batch_size=16, shuffle=True)
    for _ in range(8):
        for rows, labels in loader:
            loss = nn.functional.cross_entropy(model(rows), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
