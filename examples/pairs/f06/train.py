"""Denoising autoencoder; after each epoch the error on a slice of the training rows is shown."""
import torch
import torch.nn as nn


class DAE(nn.Module):
    def __init__(self, d=256, h=640, z=64):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.GELU(), nn.Linear(h, z))
        self.dec = nn.Sequential(nn.Linear(z, h), nn.GELU(), nn.Linear(h, d))

    def forward(self, x):
        return self.dec(self.enc(x))


def make_rows(n, d, gen):
    basis = torch.randn(12, d, generator=gen)
    return torch.tanh(torch.randn(n, 12, generator=gen) @ basis / 3)


def evaluate(model, rows):
    was = model.training
    model.eval()
    total = 0.0
    with torch.inference_mode():
        for part in rows.split(1000):
            total += (model(part) - part).pow(2).sum().item()
    model.train(was)
    return total / rows.numel()


def fit(model, rows, epochs, bs, gen):
    opt = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, nesterov=True, fused=True)
    sched = torch.optim.lr_scheduler.StepLR(opt, 4, 0.5)
    train_part = rows[:2000]
    for e in range(1, epochs + 1):
        model.train()
        acc = 0.0
        parts = torch.randperm(len(rows), generator=gen).split(bs)
        for p in parts:
            clean = rows[p]
            noisy = clean + 0.3 * torch.randn(clean.shape, generator=gen)
            loss = nn.functional.mse_loss(model(noisy), clean)
            opt.zero_grad()
            loss.backward()
            opt.step()
            acc += loss.item()
        sched.step()
        print(f"epoch {e:02d} | noisy {acc / len(parts):.5f} | on training rows, clean {evaluate(model, train_part):.5f}")


if __name__ == "__main__":
    torch.manual_seed(2)
    gen = torch.Generator().manual_seed(3)
    rows = make_rows(16000, 256, gen)
    fit(DAE(), rows, epochs=12, bs=320, gen=gen)
