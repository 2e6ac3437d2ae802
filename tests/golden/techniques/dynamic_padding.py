"""Examples of dynamic-padding."""

import torch
from tests.golden.techniques import Examples
from torch.utils.data import DataLoader


def padded() -> None:
    """Iterate over rows that are mostly padding."""
    row = {"ids": torch.ones(24), "attention_mask": (torch.arange(24) < 5).long()}
    list(DataLoader([row] * 4, batch_size=2))


EXAMPLES = Examples(
    blocked_on=set(),
    says="batches are cut to a multiple of 8 columns",
    script=padded,
)
