"""A training loop in the way of Accelerate's nlp_example.py."""

import argparse

import torch
from accelerate import Accelerator
from torch.optim import AdamW
from torch.utils.data import DataLoader, TensorDataset

MAX_GPU_BATCH_SIZE = 16


def get_dataloaders(batch_size: int = 16):
    rows = TensorDataset(torch.randint(0, 64, (640, 12)), torch.randint(0, 2, (640,)))
    return DataLoader(rows, shuffle=True, batch_size=batch_size)


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(64, 32)
        self.head = torch.nn.Linear(32, 2)

    def forward(self, ids):
        return self.head(self.embed(ids).mean(dim=1))


def training_function(config, args) -> None:
    accelerator = Accelerator(cpu=args.cpu, mixed_precision=args.mixed_precision)
    loader = get_dataloaders(int(config["batch_size"]))
    model = Classifier()
    optimizer = AdamW(params=model.parameters(), lr=config["lr"])
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(config["num_epochs"]):
        model.train()
        for ids, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(ids).float(), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser(description="Simple example of training script.")
    parser.add_argument(
        "--mixed_precision",
        type=str,
        default=None,
        choices=["no", "fp16", "bf16", "fp8"],
        help="Whether to use mixed precision.",
    )
    parser.add_argument("--cpu", action="store_true", help="If passed, will train on the CPU.")
    args = parser.parse_args()
    training_function({"lr": 2e-5, "num_epochs": 1, "batch_size": 8}, args)


if __name__ == "__main__":
    main()
