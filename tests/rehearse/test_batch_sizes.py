"""Batch sizes of DataLoaders are known, and multiplied only where the loader makes its batches."""

import subprocess
import sys
import textwrap

SCRIPT = """
import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler
from hotloop.rehearse.batch_sizes import BatchSizes

sizes = BatchSizes(1.5)
sizes.install(torch)
rows = torch.arange(60)
assert sizes.facts() == {}
train = DataLoader(rows, 8, shuffle=True)
sampler = BatchSampler(SequentialSampler(rows), 7, drop_last=False)
other, validation = DataLoader(rows, batch_sampler=sampler), DataLoader(rows, batch_size=20)
assert len(next(iter(train))) == 12
assert sizes.facts() == {"batch_asked": 8, "batch": 12, "rows": 60}
assert len(next(iter(other))) == 7  # it was given its batches
assert DataLoader(rows, batch_size=None).batch_size is None
with torch.no_grad():
    assert len(next(iter(validation))) == 30
assert sizes.facts()["batch_asked"] == 8
assert train.batch_size == 12 and train.dataset is rows
"""


def test_batch_sizes():
    code = textwrap.dedent(SCRIPT)  # in a process of its own: it wraps torch's class
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
