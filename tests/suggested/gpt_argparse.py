"""A small language model in the way of nanoGPT's train.py, with argparse."""

import argparse
from contextlib import nullcontext

import torch
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--num_workers", type=int, default=0)
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
parser.add_argument("--compile", action="store_true")
parser.add_argument("--fused", action=argparse.BooleanOptionalAction, default=False)
parser.add_argument("--batch_size", type=int, default=8)
args = parser.parse_args()


class Chars(Dataset):
    def __init__(self) -> None:
        self.data = torch.randint(0, 64, (1000,))

    def __len__(self):
        return 640

    def __getitem__(self, index):
        return self.data[index : index + 16], self.data[index + 1 : index + 17]


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(64, 32)
        self.head = torch.nn.Linear(32, 64)

    def forward(self, x):
        return self.head(self.embed(x))


ptdtype = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
plain = args.dtype == "float32"
ctx = nullcontext() if plain else torch.autocast("cpu", dtype=ptdtype[args.dtype])
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=args.fused)
if args.compile:
    model = torch.compile(model)
loader = DataLoader(Chars(), batch_size=args.batch_size, shuffle=True, num_workers=args.num_workers)
for x, y in loader:
    with ctx:
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits.float().view(-1, 64), y.view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
