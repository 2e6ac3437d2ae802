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


def test_a_background_save_pins_once_and_the_host_does_not_wait(on_card):
    script = f"""{START}
from hotloop.engine.checkpoint.background_writer import Background
from hotloop.engine.checkpoint.state import Snapshot
many = {{str(at): torch.full((50,), float(at)).cuda() for at in range(200)}}
files = {{"model": there, "optimizer": many}}
background, copied = Background(), []
def save(): copied.append(background.copied(Snapshot(step=1, files=files, state={{}})).files)
first = counted(save)
facts["waits"], facts["pins"] = dict(first.waits), first.memory["pinned_allocations"]
facts["thread"] = dict(counted(background.wait).waits)
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
    assert facts["waits"] == {}
    assert facts["thread"] == {"cudaEventSynchronize": 1}
    assert facts["again"] == [{}, 0]
    assert facts["place"], "the memory is taken once"
    assert facts["pins"] == 1, "of 206 tensors"


ORDER = """
import torch
from hotloop.engine.checkpoint.background_writer import Background
from hotloop.engine.checkpoint.state import Snapshot
weight, mean = torch.ones(1000).cuda(), torch.ones(8).cuda()
background, computing = Background(), torch.cuda.Stream()
def side(): return background._sides[weight.device]._stream.cuda_stream
files = {"model": {"w": weight, "mean": mean}}
def save(**more): background.copied(Snapshot(step=1, files=files, state={}, **more))
torch.cuda.set_stream(computing)
"""


def test_only_the_update_waits_for_the_copies_of_a_background_save(on_card):
    script = f"""{ORDER}
weight.mul_(2)
save()
facts["copies come after the work before"] = ordered(computing.cuda_stream, side())
weight * 2  # the next forward pass
facts["forward waits"] = ordered(side(), computing.cuda_stream)
background.order_update()
facts["update waits"] = ordered(side(), computing.cuda_stream)
"""
    assert on_card("rtx4090", script).facts == {
        "copies come after the work before": True,
        "forward waits": False,
        "update waits": True,
    }


def test_what_a_forward_pass_may_change_is_copied_before_it(on_card):
    script = f"""{ORDER}
copied = []
class Side:
    device, copied = weight.device, torch.cuda.Event()
    def copy(self, pairs): copied.extend(pairs)
background._sides[weight.device] = Side()
save(buffers=frozenset({{"mean"}}))
facts["beside"] = [source.data_ptr() == weight.data_ptr() for _, source in copied]
facts["copies"] = len(copied)
"""
    facts = on_card("rtx4090", script).facts
    assert facts == {"beside": [True], "copies": 1}


def test_a_training_orders_each_update_behind_the_copies(on_card, tmp_path):
    """Also of a best validation, which is copied at once and written later."""
    (tmp_path / "corpus.txt").write_text("the quick brown fox " * 500)
    words = ["train", "char-lm", f"data.path={tmp_path}/corpus.txt", "--with", "async-checkpoint"]
    words += ["model.layers=1", "model.heads=2", "model.width=64", "model.context=32"]
    words += ["training.max_steps=6", "training.save_every_steps=2", "training.batch_size=8"]
    words += ["training.epochs=null", "training.eval_every_epochs=null"]
    words += ["training.eval_every_steps=3", "--out", str(tmp_path / "run"), "--quiet"]
    script = f"""
import torch
from hotloop.rehearse.any_value import take_any_value
take_any_value()
from hotloop.cli.main import main
from hotloop.engine import loop
from hotloop.engine.checkpoint import background_writer
sides, orders = [], []
class Side(background_writer._Side):
    def __init__(self, device):
        super().__init__(device)
        sides.append(self)
    def copy(self, pairs):
        orders.append("copy")
        super().copy(pairs)
background_writer._Side = Side
update = loop.update
def ordered_update(*arguments):
    now = torch.cuda.current_stream().cuda_stream
    orders.append(all(ordered(side._stream.cuda_stream, now) for side in sides))
    return update(*arguments)
loop.update = ordered_update
facts["exit"], facts["orders"] = main({words!r}), orders
"""
    facts = on_card("rtx4090", script).facts
    assert facts["exit"] == 0
    assert [order for order in facts["orders"] if order != "copy"] == [True] * 6
    assert facts["orders"].count("copy") >= 4, "after steps 1, 2, 4 and 6"
