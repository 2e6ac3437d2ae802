"""Distil a character-level transformer into a smaller one."""

import argparse
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

HERE = Path(__file__).resolve().parent


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, c = x.shape
        qkv = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.ln2(x))


class CharLM(nn.Module):
    def __init__(self, vocab, context, dim, layers, heads):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(context, dim))
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(layers)])
        self.ln = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.tok(ids) + self.pos[: ids.size(1)]
        return self.head(self.ln(self.blocks(x)))


def get_batch(data, batch_size, context):
    starts = torch.randint(len(data) - context - 1, (batch_size, 1))
    window = data[starts + torch.arange(context + 1)]
    return window[:, :-1], window[:, 1:]


def train_teacher(teacher, data, steps, batch_size, context):
    optimizer = torch.optim.AdamW(teacher.parameters(), lr=2e-3)
    for step in range(steps):
        x, y = get_batch(data, batch_size, context)
        loss = F.cross_entropy(teacher(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"teacher step {step} loss {loss.item():.4f}")


def distil_loss(student_logits, teacher_logits, targets, temperature=2.0, alpha=0.7):
    hard = F.cross_entropy(student_logits.flatten(0, 1), targets.flatten())
    soft = F.kl_div(
        F.log_softmax(student_logits.flatten(0, 1) / temperature, dim=-1),
        F.softmax(teacher_logits.flatten(0, 1) / temperature, dim=-1),
        reduction="batchmean",
    )
    return alpha * temperature**2 * soft + (1 - alpha) * hard


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="./out")
    parser.add_argument("--teacher-steps", type=int, default=15)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--context", type=int, default=64)
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)

    text = (HERE / "shakespeare.txt").read_text()
    chars = sorted(set(text))
    stoi = {c: i for i, c in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in text])
    train, val = data[:-10000], data[-10000:]

    teacher = CharLM(len(chars), args.context, dim=128, layers=4, heads=4)
    train_teacher(teacher, train, args.teacher_steps, args.batch_size, args.context)
    teacher.eval()

    student = CharLM(len(chars), args.context, dim=32, layers=1, heads=2)
    optimizer = torch.optim.AdamW(student.parameters(), lr=3e-3)
    for step in range(args.steps):
        x, y = get_batch(train, args.batch_size, args.context)
        with torch.no_grad():
            teacher_logits = teacher(x)
        loss = distil_loss(student(x), teacher_logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"student step {step} loss {loss.item():.4f}")

    student.eval()
    with torch.no_grad():
        x, y = get_batch(val, 64, args.context)
        val_loss = F.cross_entropy(student(x).flatten(0, 1), y.flatten())
    print(f"student val loss {val_loss.item():.4f}")
    torch.save(student.state_dict(), out / "student.pt")


if __name__ == "__main__":
    main()
