"""Character LSTM on Shakespeare, one pass over the text."""

import argparse
import pathlib
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class CharDataset(Dataset):
    """Windows of `block_size` characters and the same shifted by one."""

    def __init__(self, text, stoi, block_size):
        self.data = torch.tensor([stoi[c] for c in text], dtype=torch.long)
        self.block_size = block_size

    def __len__(self):
        return len(self.data) - self.block_size

    def __getitem__(self, i):
        chunk = self.data[i : i + self.block_size + 1]
        return chunk[:-1], chunk[1:]


class CharLSTM(nn.Module):
    def __init__(self, vocab_size, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, 32)
        self.lstm = nn.LSTM(32, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocab_size)

    def forward(self, x):
        h, _ = self.lstm(self.embed(x))
        return self.head(h)


@torch.no_grad()
def evaluate(model, data, block_size):
    model.eval()
    n = (len(data) - 1) // block_size
    x = data[: n * block_size].view(n, block_size)
    y = data[1 : n * block_size + 1].view(n, block_size)
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    model.train()
    return loss.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=1)
    ap.add_argument("--block-size", type=int, default=64)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--hidden", type=int, default=128)
    ap.add_argument("--lr", type=float, default=6e-3)
    ap.add_argument("--chars", type=int, default=16_000, help="how much of the text to train on")
    ap.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    args = ap.parse_args()

    torch.manual_seed(42)
    path = pathlib.Path(__file__).resolve().parent / "../data/shakespeare.txt"
    text = path.read_text()
    stoi = {c: i for i, c in enumerate(sorted(set(text)))}
    train_set = CharDataset(text[: args.chars], stoi, args.block_size)
    val_text = text[args.chars : args.chars + 6_500]
    val = torch.tensor([stoi[c] for c in val_text])
    loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)

    model = CharLSTM(len(stoi), args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    loss_fn = nn.CrossEntropyLoss()

    started = time.time()
    steps = 0
    for epoch in range(args.epochs):
        print(f"epoch {epoch + 1}/{args.epochs}: {len(loader)} batches")
        for i, (x, y) in enumerate(loader):
            logits = model(x)
            loss = loss_fn(logits.flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            steps += 1
            if i % 100 == 0:
                print(f"  {i}/{len(loader)} loss {loss.item():.3f} {time.time() - started:.1f}s")
        print(f"epoch {epoch + 1} val loss {evaluate(model, val, args.block_size):.4f}")

    print(f"{args.epochs} epoch(s), {steps} steps, {time.time() - started:.1f}s")
    args.out.mkdir(parents=True, exist_ok=True)
    torch.save(model.state_dict(), args.out / "lstm.pt")


if __name__ == "__main__":
    main()
