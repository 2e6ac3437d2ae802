"""Fine-tunes a model from its own last checkpoint: the optimizer and the count begin anew."""

import tempfile
import time

import torch
from torch import nn


def built():
    torch.manual_seed(0)
    model = nn.Linear(16, 1)
    return model, torch.optim.AdamW(model.parameters(), 1e-2)


def train(model, optimizer, epochs):
    for epoch in range(epochs):
        for _ in range(10):
            optimizer.zero_grad()
            model(torch.randn(8, 16)).square().mean().backward()
            optimizer.step()
            time.sleep(0.005)
        print(f"epoch {epoch} done")
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}


with tempfile.NamedTemporaryFile(suffix=".pt") as file:
    torch.save(train(*built(), 8), file.name)
    kept = torch.load(file.name)
    model, optimizer = built()
    model.load_state_dict(kept["model"])
    print(f"weights of epoch {kept['epoch']}")
    trained = kept["epoch"]
    train(model, optimizer, 12)
