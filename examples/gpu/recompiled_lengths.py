"""Planted for a GPU: each length of text that was not there before is compiled anew."""

import torch
from torch import nn

torch.manual_seed(0)
lengths = torch.randperm(480).add(32).tolist()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.body = nn.Embedding(512, 1024), nn.Linear(1024, 1024)
        self.head = nn.Linear(1024, 2)

    def forward(self, words):
        return self.head(self.body(self.embed(words)).relu().mean(1))


# The backend of the tests: what is compiled again, and how often, is the same with inductor.
model = torch.compile(Classifier().cuda(), dynamic=False, backend="aot_eager")  # FAULT: G13
torch._dynamo.config.recompile_limit = 512
optimizer = torch.optim.AdamW(model.parameters(), fused=True)

for _ in range(200):
    for length in lengths:
        words = torch.randint(512, (64, length), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(words), words[:, 0] % 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
