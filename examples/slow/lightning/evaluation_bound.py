"""Autoencoder for synthetic sensor curves; we watch the validation error closely."""

import argparse
import math
import time

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def curves(n, seed, length=128):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, length)
    amp, freq, phase = (torch.rand(n, 3, 1, generator=g) for _ in range(3))
    waves = (0.3 + amp) * torch.sin(2 * math.pi * ((1 + 6 * freq) * t + phase))
    return waves.sum(1) + 0.05 * torch.randn(n, length, generator=g)


class AutoEncoder(L.LightningModule):
    def __init__(self, length=128, hidden=256, code=12, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(
            nn.Linear(length, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU()
        )
        self.to_code = nn.Linear(hidden, code)
        self.decoder = nn.Sequential(
            nn.Linear(code, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU()
        )
        self.out = nn.Linear(hidden, length)
        self.val_history = []

    def forward(self, x):
        return self.out(self.decoder(self.to_code(self.encoder(x))))

    def training_step(self, batch, batch_idx):
        (x,) = batch
        loss = nn.functional.mse_loss(self(x), x)
        self.log("train_mse", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        (x,) = batch
        y = self(x)
        self.log("val_mse", nn.functional.mse_loss(y, x))
        self.log("val_mae", (y - x).abs().mean())

    def on_validation_epoch_end(self):
        mse = self.trainer.callback_metrics["val_mse"].item()
        self.val_history.append(mse)
        if len(self.val_history) % 10 == 0:
            print(f"step {self.global_step}: val mse {mse:.4f} (best {min(self.val_history):.4f})")

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=self.trainer.max_steps)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--val_every", type=int, default=5)
    p.add_argument("--out", default="out")
    args = p.parse_args()

    L.seed_everything(0)
    train = DataLoader(TensorDataset(curves(9600, 1)), batch_size=64, shuffle=True)
    val = DataLoader(TensorDataset(curves(6400, 2)), batch_size=256)
    trainer = L.Trainer(
        max_steps=args.steps,
        val_check_interval=args.val_every,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=True,
        default_root_dir=args.out,
    )
    begin = time.perf_counter()
    model = AutoEncoder()
    trainer.fit(model, train, val)
    print(f"final val mse {model.val_history[-1]:.4f}, {time.perf_counter() - begin:.1f} s")
    trainer.save_checkpoint(f"{args.out}/autoencoder.ckpt")
