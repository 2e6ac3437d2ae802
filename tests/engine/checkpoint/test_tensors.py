"""What several ranks write is what one would: tensors are found whole, and any rows of them."""

import pytest
import torch
from safetensors.torch import save_file

from hotloop.core.errors import CheckpointError
from hotloop.engine.checkpoint.tensors import Parts, mine, name_of, read_all

WHOLE = {
    "weight": torch.arange(30.0).reshape(10, 3),
    "bias": torch.arange(4.0),
    "step": torch.tensor(7),
}


def dealt(folder, ranks):
    """Write tensors that all ranks have as `ranks` of them would."""
    for rank in range(ranks):
        save_file(mine(WHOLE, rank, ranks), folder / name_of("model", rank, ranks))
    return folder


def in_rows(folder, cuts):
    """Write "weight" as ranks that hold its rows up to each of `cuts`."""
    for rank, (first, end) in enumerate(zip([0, *cuts], [*cuts, 10], strict=True)):
        rows = {"weight": WHOLE["weight"][first:end].clone()} if end > first else {}
        save_file({**rows, f"own{rank}": torch.ones(1)}, folder / name_of("model", rank, 9))
    return folder


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_each_tensor_is_written_by_one_rank(ranks, tmp_path):
    found = read_all(dealt(tmp_path, ranks))
    assert found.keys() == WHOLE.keys()
    assert all(torch.equal(found[name], WHOLE[name]) for name in WHOLE)


@pytest.mark.parametrize("cuts", [[5], [3, 6], [4, 8, 10], [10]])
def test_rows_of_ranks_are_the_whole_one_after_the_other(cuts, tmp_path):
    parts = Parts(in_rows(tmp_path, cuts), "model")
    assert parts.layout["weight"] == (torch.Size([10, 3]), torch.float32)
    assert torch.equal(parts.read("weight"), WHOLE["weight"])
    for first in range(10):
        for count in range(11 - first):
            rows = parts.rows("weight", first, count)
            assert torch.equal(rows, WHOLE["weight"][first : first + count])


def test_a_missing_part_is_told(tmp_path):
    in_rows(tmp_path, [3, 6])
    (tmp_path / "model-r1.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"of its parts model-r0\.safetensors, model-r2"):
        Parts(tmp_path, "model")
    with pytest.raises(CheckpointError, match="nothing of it"):
        Parts(tmp_path, "optimizer")


def test_rows_that_do_not_go_together_are_told(tmp_path):
    in_rows(tmp_path, [5])
    save_file({"weight": torch.ones(5, 4)}, tmp_path / "model-r1.safetensors")
    with pytest.raises(CheckpointError, match="rows of weight do not go with those before"):
        Parts(tmp_path, "model")


def test_a_damaged_part_is_told(tmp_path):
    in_rows(tmp_path, [5])
    (tmp_path / "model-r1.safetensors").write_bytes(b"no header")
    with pytest.raises(CheckpointError, match=r"model-r1\.safetensors cannot be read"):
        Parts(tmp_path, "model")
