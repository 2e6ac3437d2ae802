"""On a CPU, through a copy stream that copies at once; on a GPU, through CUDA's own."""

import collections
import copy
import io

import pytest
import torch
from tests.golden.feeds import epochs, fed, loader
from torch.utils.data import DataLoader
from transformers import BatchEncoding

from hotloop.machine.copy_stream import CudaCopyStream
from hotloop.techniques.on_scripts.device_prefetch import BatchPrefetch

HAD = {
    "none": {},
    "started each epoch": {"num_workers": 1},
    "kept": {"num_workers": 1, "persistent_workers": True},
}
Pair = collections.namedtuple("Pair", "x y")


class Stream:
    """Copies at once, and remembers what it did."""

    def __init__(self, device):
        self.device, self.log = device, []

    def send(self, tensors):
        self.log.append(("send", len(tensors)))
        return [tensor.clone().to(self.device) for tensor in tensors], f"event {len(self.log)}"

    def arrive(self, tensors, event, *, wait=False):
        self.log.append((event, wait))


class Streams:
    """Makes copy streams to the CPU."""

    def __init__(self):
        self.made = []

    def __call__(self, device):
        self.made.append(Stream(device))
        return self.made[-1]


def sending():
    streams = Streams()
    return BatchPrefetch(streams, "cpu"), streams


def rows(count=12):
    return [{"x": torch.full((3,), float(at)), "y": at} for at in range(count)]


def taught(batch):
    """Return a batch whose tensors are on their way, of a loop that moves its x."""
    into, streams = sending()
    first = into.hand(batch)
    first["x"].to("cpu")
    return into.hand(batch), into, streams


# The order of things.


def test_what_the_loop_moves_is_sent_a_batch_ahead_and_what_it_does_not_is_not():
    into, streams = sending()
    seen = []
    with fed(into):
        for batch in DataLoader(rows(), batch_size=2):
            seen.append(batch["x"].to("cpu", non_blocking=True)[:, 0].tolist())
            batch["y"].sum()
    assert seen == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    (stream,) = streams.made
    # Batch 1 was read before it was known that its x is moved; of y nothing is sent.
    assert stream.log == [
        ("send", 1), ("send", 1), ("event 1", False), ("send", 1), ("event 2", False),
        ("send", 1), ("event 4", False), ("event 6", False),
    ]  # fmt: skip
    assert (into.sent, into.taken, into.device) == (4, 4, torch.device("cpu"))


@pytest.mark.parametrize("had", HAD)
@pytest.mark.parametrize("sampler", ["in order", "shuffled", "of a generator", "of batches"])
def test_batches_are_the_same_in_the_same_order(had, sampler):
    torch.manual_seed(0)
    plain = epochs(loader(sampler, **HAD[had]))[::2]
    torch.manual_seed(0)
    assert epochs(loader(sampler, **HAD[had]), sending()[0])[::2] == plain


def test_a_loop_that_ends_early_or_runs_beside_another_has_its_own_batches():
    of = DataLoader(rows(), batch_size=4)
    with fed(sending()[0]):
        batch = next(iter(of))
        assert batch["y"].tolist() == [0, 1, 2, 3]
        pairs = [(a["y"][0].item(), b["y"][0].item()) for a in of for b in of]
    assert pairs == [(a, b) for a in (0, 4, 8) for b in (0, 4, 8)]


def test_an_error_comes_at_its_batch_and_the_next_is_read():
    class Broken(list):
        def __getitem__(self, index):
            if index == 5:
                raise OSError("sample 5")
            return super().__getitem__(index)

    with fed(sending()[0]):
        batches, seen = iter(DataLoader(Broken(rows()), batch_size=2)), []
        for _ in range(6):
            try:
                seen.append(next(batches)["y"].tolist())
            except OSError as error:
                seen.append(str(error))
        assert seen == [[0, 1], [2, 3], "sample 5", [6, 7], [8, 9], [10, 11]]
        for _ in range(2):
            with pytest.raises(StopIteration):
                next(batches)


def test_where_sending_fails_batches_are_what_they_were_and_it_is_said():
    class Full(Stream):
        def send(self, tensors):
            raise torch.OutOfMemoryError("the GPU is full")

    troubles = []
    into = BatchPrefetch(Full, "cpu", troubles)
    with fed(into):
        seen = [batch["x"].to("cpu")[:, 0].tolist() for batch in DataLoader(rows(), batch_size=4)]
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert troubles == ["it was ended: OutOfMemoryError: the GPU is full"]
    assert (into.sent, into.taken) == (0, 0)


def test_batches_of_inference_mode_are_left_alone():
    into, _ = sending()
    with fed(into), torch.inference_mode():
        batches = [batch["x"] for batch in DataLoader(rows(), batch_size=4)]
    assert {type(batch) for batch in batches} == {torch.Tensor}


# Moving.


@pytest.mark.parametrize(
    ("args", "options", "wait"),
    [
        (("cpu",), {}, True),
        ((torch.device("cpu"),), {"non_blocking": True}, False),
        ((), {"device": "cpu", "non_blocking": False}, True),
    ],
)
def test_a_copy_is_given_once_and_the_host_waits_where_it_would_have(args, options, wait):
    batch, into, streams = taught({"x": torch.arange(4.0)})
    moved = batch["x"].to(*args, **options)
    assert type(moved) is torch.Tensor
    assert moved.tolist() == [0, 1, 2, 3]
    assert streams.made[0].log[-1] == ("event 1", wait)
    again = batch["x"].to("cpu", copy=True)
    assert again.data_ptr() != moved.data_ptr()
    batch["x"].to(*args, **options)
    assert into.taken == 1, "a second call gets memory of its own"


@pytest.mark.parametrize(
    "asked",
    [
        lambda x: x.to("cpu", torch.float64),
        lambda x: x.to(torch.float64),
        lambda x: x.to(torch.zeros(2)),
        lambda x: x.to("cpu", copy=True),
        lambda x: x.to("meta"),
        lambda x: x.add_(1).to("cpu"),
        lambda x: (x.numpy().__iadd__(1), x.to("cpu"))[1],
        lambda x: x[:2].to("cpu"),
    ],
)
def test_what_is_asked_for_in_another_way_or_was_changed_is_moved_as_before(asked):
    plain = asked(torch.arange(4.0))
    batch, into, _ = taught({"x": torch.arange(4.0)})
    found = asked(batch["x"])
    assert (found.dtype, found.device) == (plain.dtype, plain.device)
    assert found.is_meta or torch.equal(found, plain)
    assert into.taken == 0


def test_the_batch_is_a_plain_one_in_all_else():
    batch, _, _ = taught({"x": torch.arange(4.0), "n": 3})
    x = batch["x"]
    assert isinstance(x, torch.Tensor)
    assert type(x + 1) is type(x[0]) is type(torch.stack([x])) is torch.Tensor
    assert repr(x) == repr(torch.arange(4.0))
    assert type(copy.deepcopy(x)) is torch.Tensor
    file = io.BytesIO()
    torch.save({"example": x}, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=True)["example"], torch.arange(4.0))
    x[0] = 7
    assert (x.sum().item(), len(x), batch["n"]) == (13, 4, 3)
    weight = torch.ones(4, requires_grad=True)
    (weight * x).sum().backward()
    assert weight.grad.tolist() == [7, 1, 2, 3]


@pytest.mark.parametrize(
    "batch",
    [
        (torch.ones(2), torch.zeros(2)),
        [torch.ones(2), torch.zeros(2)],
        Pair(torch.ones(2), torch.zeros(2)),
        {"a": torch.ones(2)},
        BatchEncoding({"a": torch.ones(2)}),
    ],
)
def test_containers_keep_their_type_and_are_not_the_batchs_own(batch):
    into, _ = sending()
    found = into.hand(batch)
    assert type(found) is type(batch)
    assert found is not batch
    first = found[0] if isinstance(batch, list | tuple) else found["a"]
    own = batch[0] if isinstance(batch, list | tuple) else batch["a"]
    assert type(own) is torch.Tensor
    first.to("cpu")
    assert into.moved == {0}


def test_a_batch_of_another_kind_is_left_alone():
    thing, into = object(), sending()[0]
    assert into.hand(thing) is thing
    leaf = torch.ones(2, requires_grad=True)
    assert into.hand([leaf, "text"])[0] is leaf


def test_another_device_is_followed():
    into, streams = sending()
    into._kind = "meta"
    into.hand([torch.ones(2)])[0].to("meta")
    into._kind = "cpu"
    for _ in range(3):
        (x,) = into.hand([torch.ones(2)])
        assert x.to("cpu").tolist() == [1, 1]
    assert into.device == torch.device("cpu")
    assert [stream.device.type for stream in streams.made] == ["meta", "cpu"]
    assert into.taken == 2


# On a GPU.


@pytest.mark.gpu
@pytest.mark.parametrize("pinned", [False, True])
def test_a_gpus_lane_brings_every_batch_whole(pinned):
    device = torch.device("cuda", 0)
    into = BatchPrefetch(CudaCopyStream, "cuda")
    data = torch.arange(64.0)[:, None].repeat(1, 1 << 16)
    with fed(into):
        for _ in range(3):
            for at, x in enumerate(DataLoader(data, batch_size=8, pin_memory=pinned)):
                moved = x.to(device, non_blocking=True)
                for _ in range(20):  # work that the next copy goes beside
                    moved = moved + 0.0
                assert torch.equal(moved.cpu()[:, 0], torch.arange(8.0) + 8 * at)
    assert into.taken >= 20
    assert into.device == device
