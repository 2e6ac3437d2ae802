"""Examples of length-bucketing."""

from functools import partial

import torch
from tests.golden.techniques import Examples
from torch.utils.data import DataLoader


def bucketed() -> None:
    """Iterate at random over rows of all lengths, padded to the longest of a batch."""
    rows = [torch.ones(1 + at % 20) for at in range(40)]
    collate = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
    list(DataLoader(rows, batch_size=4, shuffle=True, collate_fn=collate))


EXAMPLES = Examples(
    blocked_on=set(),
    says="batches are sorted by length: ",
    script=bucketed,
)
