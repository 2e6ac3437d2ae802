"""item2vec: skip-gram with negative sampling on shopping baskets (was a notebook)."""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--out", default="out")
parser.add_argument("--steps", type=int, default=500)
args = parser.parse_args()
OUT = Path(args.out)
OUT.mkdir(parents=True, exist_ok=True)

torch.manual_seed(1)
torch.set_num_threads(1)
rng = np.random.default_rng(1)

N_ITEMS = 30_000
N_AISLES = 150
DIM = 64
BATCH = 512
NEGATIVES = 5

# %% baskets: every shopper visits a couple of aisles, popular items first
per_aisle = N_ITEMS // N_AISLES
popularity = 1.0 / np.arange(1, per_aisle + 1) ** 0.8
popularity /= popularity.sum()


def make_pairs(n_baskets):
    """Return (item, item bought with it) pairs."""
    pairs = []
    for aisles in rng.integers(0, N_AISLES, (n_baskets, 2)):
        items = [a * per_aisle + rng.choice(per_aisle, 4, p=popularity) for a in aisles]
        basket = rng.permutation(np.concatenate(items))
        centre = np.repeat(basket, len(basket))
        context = np.tile(basket, len(basket))
        keep = centre != context
        pairs.append(np.stack([centre[keep], context[keep]], 1))
    return torch.from_numpy(np.concatenate(pairs))


train_pairs = make_pairs(6000)
test_pairs = make_pairs(300)
counts = torch.bincount(train_pairs[:, 1], minlength=N_ITEMS).float()
noise = torch.distributions.Categorical((counts + 1) ** 0.75)
noise_pool = noise.sample((500_000,))
print(f"{len(train_pairs)} pairs, {N_ITEMS} items")


# %% model
class Item2Vec(nn.Module):
    """Two tables, one for the item and one for its context."""

    def __init__(self):
        super().__init__()
        self.item = nn.Embedding(N_ITEMS, DIM)
        self.context = nn.Embedding(N_ITEMS, DIM)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.normal_(self.context.weight, std=0.1)

    def forward(self, centre, context, negatives):
        """Return the negative-sampling loss."""
        v = self.item(centre)
        good = (v * self.context(context)).sum(1)
        bad = torch.bmm(self.context(negatives), v.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(good) + F.logsigmoid(-bad).sum(1)).mean()


model = Item2Vec()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)


# %% train
def draw(pairs, size):
    """Draw a batch with its negatives."""
    batch = pairs[torch.randint(len(pairs), (size,))]
    negatives = noise_pool[torch.randint(len(noise_pool), (size, NEGATIVES))]
    return batch[:, 0], batch[:, 1], negatives


start, losses = time.time(), []
for step in range(1, args.steps + 1):
    loss = model(*draw(train_pairs, BATCH))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 100 == 0:
        with torch.no_grad():
            test = model(*draw(test_pairs, 4096)).item()
        recent = sum(losses[-100:]) / 100
        print(f"step {step} loss {recent:.3f} test {test:.3f} {time.time() - start:.0f}s")

# %% neighbours of the most bought items
with torch.no_grad():
    table = F.normalize(model.item.weight, dim=1)
    top = counts.topk(20).indices
    near = (table[top] @ table.T).topk(6).indices[:, 1:]
same = (near // per_aisle == (top // per_aisle).unsqueeze(1)).float().mean().item()
print(f"neighbours from the same aisle: {same:.2f}")
np.save(OUT / "item_vectors.npy", model.item.weight.detach().numpy())
