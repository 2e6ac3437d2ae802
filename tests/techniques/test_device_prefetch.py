"""Device prefetch in scripts, on a CPU through a copy stream that copies at once."""

from dataclasses import replace

import pytest
import torch
from tests.golden.outside import MACHINE, Augmented, Images
from tests.golden.techniques.device_prefetch import CopyAtOnce, apply, moving
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, IterableDataset

from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan, Use
from hotloop.diagnosis.apply_techniques import AppliedTechniques
from hotloop.observe.observer import ScriptObserver
from hotloop.observe.probes.dataset_trial import can_fork
from hotloop.observe.when_to_stop import StopLimits
from hotloop.session.session import ScriptSession
from hotloop.techniques.base import anywhere
from hotloop.techniques.device_prefetch import TECHNIQUE, send_ahead

pytestmark = pytest.mark.skipif(not can_fork(), reason="no fork here")
HERE = replace(TECHNIQUE, apply=apply, blocked=anywhere)


def put_into(call, technique=HERE):
    """Call a script with the technique in it; return what it returns, and what came of it."""
    plan = Plan(micro_batch=1, techniques=(Use.of(technique.id),))
    put_in = AppliedTechniques(plan, {}, hardware=MACHINE, known=[technique])
    observer = ScriptObserver(StopLimits(full=True, probing=False))
    put_in.join(observer)
    observer.start()
    try:
        returned = call()
        (effect,) = put_in.effects()
    finally:
        observer.finish()
    assert observer.hooks.fault is None, observer.hooks.fault
    return returned, effect


def train(move, **options):
    """Train with dropout for two epochs; return the losses and the weights."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.Dropout(0.2), nn.Linear(16, 4))
    update, losses = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), []
    for _ in range(2):
        for x, y in DataLoader(Images(), batch_size=8, shuffle=True, **options):
            loss = cross_entropy(net(move(x)), move(y))
            update.zero_grad()
            loss.backward()
            update.step()
            losses.append(loss.item())
    return losses, [weight.tolist() for weight in net.parameters()]


def session(of):
    model = nn.Module()
    return ScriptSession(
        hardware=MACHINE, device=torch.device("cpu"), model=model, forward=model, loader=of
    )


def to_the_cpu(tensor):
    return tensor.to("cpu", non_blocking=True)


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}])
def test_a_script_trains_bit_for_bit_the_same(options):
    found, effect = put_into(lambda: train(to_the_cpu, **options))
    assert effect.word == "in effect", effect
    assert effect.how == "the next batch is copied to cpu on a side stream"
    assert found == train(to_the_cpu, **options)


def test_nearly_every_batch_comes_from_a_copy():
    put = session(DataLoader(Images(), batch_size=8))
    assert apply(put) == 1
    assert TECHNIQUE.read_back(put) is None
    assert "moves no tensor" in put.refused
    sending = put.facts["device-prefetch"]
    batches = iter(put.loader)
    sending.on_iterator_created(batches)
    for x, y in batches:
        to_the_cpu(x), to_the_cpu(y)
    assert sending.sent == sending.taken == 2 * (6 - 2), "it is learned from the first two"
    assert "copied to cpu" in TECHNIQUE.read_back(put)


def test_a_script_that_moves_nothing_is_told_so():
    found, effect = put_into(lambda: train(lambda x: x))
    assert effect.word == "refused"
    assert effect.how.startswith("the loop moves no tensor of its batches to the GPU")
    assert found == train(lambda x: x)


def test_on_a_cpu_it_is_blocked_with_the_reason():
    assert put_into(moving, replace(HERE, blocked=TECHNIQUE.blocked))[1].how == (
        "batches are copied on CUDA only, and this is a cpu device"
    )
    gpu = Hardware(device="cuda", name="a GPU", cores=8.0, capability=(8, 6))
    assert TECHNIQUE.blocked(gpu, Plan(micro_batch=1)) is None


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(16))


class Counting(Images):
    reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return super().__getitem__(index)


class Views(Images):
    def __getitem__(self, index):
        return self.x[index : index + 4]


class AsItGoes:
    def __iter__(self):
        return (int(torch.randint(48, ())) for _ in range(48))

    def __len__(self) -> int:
        return 48


REFUSED = {
    "iterable data set": {"dataset": Stream()},
    "reading samples draws from torch": {"dataset": Augmented()},
    "the sampler draws from torch": {"dataset": Images(), "sampler": AsItGoes()},
    "changes the data set each time": {"dataset": Counting()},
    "has memory in common": {"dataset": Views(), "batch_size": None},
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_would_be_read_too_early_is_refused(why):
    put = session(DataLoader(**{"batch_size": 4, **REFUSED[why]}))
    assert send_ahead(put, CopyAtOnce, "cpu") == 0
    assert why in put.refused
    assert put.loader_changes == {}


def test_worker_processes_may_draw_and_change_what_is_their_own():
    for data in (Augmented(), Counting()):
        put = session(DataLoader(data, batch_size=4, num_workers=1))
        assert send_ahead(put, CopyAtOnce, "cpu") == 1
