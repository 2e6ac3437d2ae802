"""Verses from a small grammar.  Rhymes come in pairs, so there is something to learn beyond spelling."""

import random

import torch

RHYMES = [
    ["night", "light", "sight", "white", "flight"],
    ["sea", "tree", "free", "me", "bee"],
    ["stone", "bone", "alone", "grown", "known"],
    ["rain", "lane", "grain", "again", "pain"],
    ["day", "way", "grey", "stay", "clay"],
    ["hill", "still", "mill", "will", "chill"],
]
STARTS = [
    "the wind goes over",
    "i heard the river by",
    "a bird is singing of",
    "we left our coats beside",
    "who dreams about",
    "and nobody forgets",
]
MIDDLES = [
    "the old and quiet",
    "a soft and shining",
    "the cold and narrow",
    "my long forgotten",
    "the slow and silver",
    "a lost and open",
]
ENDS = ["house of", "song of", "road of", "name of", "book of"]


def poem(rng):
    family = rng.choice(RHYMES)
    a, b = rng.sample(family, 2)
    line = lambda last: f"{rng.choice(STARTS)} {rng.choice(MIDDLES)} {rng.choice(ENDS)} {last}"
    return f"{line(a)}\n{line(b)}\n\n"


class Corpus:
    def __init__(self, verses, held_out, seed):
        rng = random.Random(seed)
        text = "".join(poem(rng) for _ in range(verses))
        self.chars = sorted(set(text))
        self.index = {c: i for i, c in enumerate(self.chars)}
        ids = torch.tensor([self.index[c] for c in text])
        cut = int(len(ids) * (1 - held_out))
        self.train, self.val = ids[:cut], ids[cut:]

    def batch(self, part, size, context, generator):
        ids = getattr(self, part)
        at = torch.randint(len(ids) - context - 1, (size,), generator=generator)
        rows = ids[at[:, None] + torch.arange(context + 1)]
        return rows[:, :-1], rows[:, 1:]

    def decode(self, ids):
        return "".join(self.chars[i] for i in ids)
