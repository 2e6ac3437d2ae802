"""Rows of tokens from pinned memory. Like all tests for a GPU it needs no package but torch's."""

import pytest
import torch
from tests.golden.tiny_store import save

from hotloop.data.sampling.token_rows import Form, TokenRows


@pytest.mark.gpu
def test_pinned_batches_reach_the_gpu_as_they_are(tmp_path):
    documents = [([[at] * (1 + at * 7 % 30)], None, None, None) for at in range(50)]
    store = save(tmp_path / "tokens", {"train": documents}, batch=8)
    rows, plain = (
        TokenRows(store, "train", form=Form(pad=7, pin=pin), seed=3, shuffle=False)
        for pin in (True, False)
    )
    for at in range(0, 40, 2):
        batch = rows.batch(0, at, 2)
        assert all(tensor.is_pinned() for tensor in batch.tensors.values())
        sent = batch.tensors["input_ids"].to("cuda", non_blocking=True)
        del batch
        assert torch.equal(sent.cpu(), plain.batch(0, at, 2).tensors["input_ids"])
