"""Tensors of a checkpoint come to the host whole, with one wait for many of them."""

import pytest

pytestmark = pytest.mark.nullcard

START = """
import torch
tensors = {
    "weight": torch.arange(40.0).reshape(5, 8),
    "half": torch.arange(6).to(torch.bfloat16),
    "mixed": torch.arange(24.0).reshape(2, 3, 4).transpose(0, 1),
    "image": torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
    "none": torch.empty(0, 4),
    "one": torch.tensor(2.5),
    "rng": torch.arange(100, dtype=torch.uint8),
}
there = {name: each.cuda() for name, each in tensors.items() if name != "rng"}
there["rng"] = tensors["rng"]
"""


@pytest.mark.parametrize("window", [1 << 26, 100, 64])
def test_a_file_of_tensors_of_a_card_is_that_of_the_host(on_card, window):
    script = f"""{START}
from hotloop.engine.checkpoint.tensor_file import HostCopies, in_order, tensor_chunks
def written():
    copies = HostCopies((there[n] for n in in_order(there)), window_bytes={window})
    return b"".join(bytes(chunk) for chunk in tensor_chunks(there, copies))
data = []
facts["waits"] = dict(counted(lambda: data.append(written())).waits)
facts["same"] = data[0] == b"".join(bytes(chunk) for chunk in tensor_chunks(tensors))
"""
    facts = on_card("rtx4090", script).facts
    assert facts["same"]
    staged = 40 * 4 + 6 * 2 + 4  # bytes; two others are not in C order and take a copy each
    assert facts["waits"] == {
        "cudaStreamSynchronize": -(-staged // window),
        "cudaMemcpyAsync to pageable memory": 2,
    }


def test_a_background_save_pins_once_and_waits_once(on_card):
    script = f"""{START}
from hotloop.engine.checkpoint.background_writer import Background
from hotloop.engine.checkpoint.state import Snapshot
many = {{str(at): torch.full((50,), float(at)).cuda() for at in range(200)}}
files = {{"model": there, "optimizer": many}}
background, copied = Background(), []
def save(): copied.append(background.copied(Snapshot(step=1, files=files, state={{}})).files)
first = counted(save)
facts["waits"], facts["pins"] = dict(first.waits), first.memory["pinned_allocations"]
facts["same"] = all(
    torch.equal(copied[0]["model"][name], tensor)
    and (name == "rng" or copied[0]["model"][name].stride() == tensor.cuda().stride())
    for name, tensor in tensors.items()
)
facts["others"] = all(bool((copied[0]["optimizer"][n] == float(n)).all()) for n in many)
there["weight"].mul_(0)
again = counted(save)
facts["again"] = dict(again.waits), again.memory["pinned_allocations"]
facts["place"] = copied[0]["model"]["weight"].data_ptr() == copied[1]["model"]["weight"].data_ptr()
"""
    facts = on_card("rtx4090", script).facts
    assert facts["same"]
    assert facts["others"]
    assert facts["waits"] == {"cudaStreamSynchronize": 1}
    assert facts["again"] == [{"cudaStreamSynchronize": 1}, 0]
    assert facts["place"], "the memory is taken once"
    assert facts["pins"] == 1, "of 206 tensors"
