"""Wine cultivar classifier."""
import torch
import torch.nn as nn


class WineNet(nn.Module):
    def __init__(self, n_in=26, n_hidden=420, n_out=9):
        super().__init__()
        self.fc1 = nn.Linear(n_in, n_hidden)
        self.fc2 = nn.Linear(n_hidden, n_hidden)
        self.fc3 = nn.Linear(n_hidden, n_out)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = self.drop(torch.relu(self.fc2(x)))
        return self.fc3(x)


def cultivars(n, seed):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(9, 26, generator=torch.Generator().manual_seed(0)) * 0.8
    y = torch.randint(0, 9, (n,), generator=g)
    return centers[y] + torch.randn(n, 26, generator=g), y


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def train_epoch(self, x, y, bs):
        self.model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(bs):
            self.optimizer.zero_grad()
            probs = self.model(x[idx])
            loss = self.criterion(probs, y[idx])
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(idx)
        return total / len(x)

    @torch.no_grad()
    def test(self, x, y):
        self.model.eval()
        probs = self.model(x).softmax(1)
        conf = probs.max(1).values.mean().item()
        return (probs.argmax(1) == y).float().mean().item(), conf


def main():
    torch.manual_seed(0)
    x, y = cultivars(12000, 1)
    xt, yt = cultivars(2000, 2)
    trainer = Trainer(WineNet())
    for epoch in range(22):
        loss = trainer.train_epoch(x, y, 256)
        acc, conf = trainer.test(xt, yt)
        print(f"Epoch {epoch + 1:02d} loss={loss:.4f} test_acc={acc:.4f} conf={conf:.3f}")


if __name__ == "__main__":
    main()
