import os
import time
from dataclasses import dataclass
import torch
import torch.nn as nn

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class TrainConfig:
    d_model: int = 512
    layers: int = 5
    batch_size: int = 96
    steps: int = 260
    lr: float = 3e-4
    save_steps: int = 260
    out_dir: str = os.path.join(HERE, "ckpt")


class ResidualMLP(nn.Module):
    def __init__(self, d_in, d, layers, d_out):
        super().__init__()
        self.stem = nn.Linear(d_in, d)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d)) for _ in range(layers))
        self.head = nn.Linear(d, d_out)

    def forward(self, x):
        x = self.stem(x)
        for l in self.layers:
            x = x + l(x)
        return self.head(x)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(0)
        self.model = ResidualMLP(64, cfg.d_model, cfg.layers, 16)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, fused=True)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, cfg.steps)
        self.gen = torch.Generator().manual_seed(0)
        self.mix = torch.randn(64, 16, generator=self.gen) / 8
        os.makedirs(cfg.out_dir, exist_ok=True)

    def batch(self):
        x = torch.randn(self.cfg.batch_size, 64, generator=self.gen)
        return x, torch.sin(2 * x @ self.mix)

    def save(self, step):
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.opt.state_dict(),
            "scheduler": self.sched.state_dict(),
            "rng": torch.get_rng_state(),
            "step": step,
        }
        torch.save(state, os.path.join(self.cfg.out_dir, "last.pt"))

    def train(self):
        for step in range(1, self.cfg.steps + 1):
            x, y = self.batch()
            loss = nn.functional.mse_loss(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.sched.step()
            if step % self.cfg.save_steps == 0:
                self.save(step)
            if step % 40 == 0:
                print(f"{step}/{self.cfg.steps} loss {loss.item():.4f}")


if __name__ == "__main__":
    Trainer(TrainConfig()).train()
