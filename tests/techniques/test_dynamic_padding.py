import pytest
import torch
from tests.golden.outside import put_into
from torch.utils.data import DataLoader, Dataset

from hotloop.probe.tryread import can_fork
from hotloop.techniques.dynamic_padding import TECHNIQUE

pytestmark = pytest.mark.skipif(not can_fork(), reason="no fork here")


class Table(Dataset):
    """Rows of 1 to 20 tokens in tensors, padded to 40 columns."""

    def __init__(self) -> None:
        self.mask = (torch.arange(40) < (torch.arange(64) % 20 + 1)[:, None]).long()

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index):
        return {"input_ids": 3 * self.mask[index], "attention_mask": self.mask[index]}


def test_what_reads_past_the_collate_function_excludes_it():
    def widths() -> list[int]:
        return [batch["input_ids"].shape[1] for batch in DataLoader(Table(), batch_size=4)]

    assert "vectorised-reads" in TECHNIQUE.excludes
    assert set(put_into(widths, "dynamic-padding")[0]) == {8, 16, 24}
    with_both, _ = put_into(widths, "dynamic-padding", "vectorised-reads")
    assert set(with_both[1:]) == {40}, "they could go together now"
