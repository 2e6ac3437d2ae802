"""An autoencoder under Lightning's Trainer: fit with validation, test, predict, a callback.

Follows Lightning-AI/pytorch-lightning examples/pytorch/basics/autoencoder.py
@ 215acdc3efa4b096c80ab2d0263cab20d2f06f54 (Apache-2.0) in which parts of Lightning it uses and in
which order; the code is ours. Checkpoints and loggers are off: their files carry clock times.
"""

import argparse
from pathlib import Path

import torch
from lightning.pytorch import (
    Callback,
    LightningDataModule,
    LightningModule,
    Trainer,
    seed_everything,
)
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Curves(LightningDataModule):
    """Parabolas of 20 points; three numbers are enough to tell one."""

    def __init__(self, batch_size: int = 32) -> None:
        super().__init__()
        x = torch.linspace(-1, 1, 20)
        a, b, c = torch.randn(3, 400, 1, generator=torch.Generator().manual_seed(8))
        everything = TensorDataset(a * x**2 + b * x + c)
        sizes, fixed = [300, 50, 50], torch.Generator().manual_seed(42)
        self.parts = random_split(everything, sizes, generator=fixed)
        self.batch_size = batch_size

    def train_dataloader(self):
        return DataLoader(self.parts[0], batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.parts[1], batch_size=self.batch_size)

    def test_dataloader(self):
        return DataLoader(self.parts[2], batch_size=self.batch_size)

    predict_dataloader = test_dataloader


class Autoencoder(LightningModule):
    def __init__(self, hidden: int = 32, rate: float = 1e-2) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.narrow = nn.Sequential(nn.Linear(20, hidden), nn.Tanh(), nn.Linear(hidden, 3))
        self.widen = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, 20))

    def forward(self, curves):
        return self.widen(self.narrow(curves))

    def error(self, batch, stage: str):
        (curves,) = batch
        loss = nn.functional.mse_loss(self(curves), curves)
        self.log(f"{stage}_error", loss, on_epoch=True, on_step=False)
        return loss

    def training_step(self, batch, index):
        return self.error(batch, "train")

    def validation_step(self, batch, index):
        self.error(batch, "held_out")

    def test_step(self, batch, index):
        self.error(batch, "test")

    def predict_step(self, batch, index):
        return self(batch[0])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.rate)


class Say(Callback):
    def on_train_epoch_end(self, trainer, module):
        errors = {name: f"{value.item():.6f}" for name, value in trainer.callback_metrics.items()}
        print("epoch", trainer.current_epoch, errors, "step", trainer.global_step)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path, default=Path("out"))
    given = options.parse_args()
    seed_everything(1234, verbose=False)
    module, data = Autoencoder(), Curves()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = Trainer(
        max_epochs=3, accelerator="cpu", callbacks=[Say()], enable_model_summary=False, **quiet
    )
    trainer.fit(module, datamodule=data)
    (result,) = trainer.test(module, datamodule=data, verbose=False)
    print({name: f"{value:.6f}" for name, value in result.items()})
    guesses = torch.cat(trainer.predict(module, datamodule=data))
    print("guesses:", tuple(guesses.shape), f"{guesses.double().sum().item():.6f}")
    given.out.mkdir(exist_ok=True)
    torch.save(module.state_dict(), given.out / "autoencoder.pt")


if __name__ == "__main__":
    main()
