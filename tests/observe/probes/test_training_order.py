"""The order of training rows: seen where it is the same in each epoch, by loaders and by hand."""

import pytest
import torch

from hotloop.observe import when_to_stop
from hotloop.observe.probes.alike import alike
from hotloop.observe.probes.training_order import fixed_order, in_memory_order


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Look at the run every few updates: these runs take two seconds."""
    monkeypatch.setattr(when_to_stop, "_EVERY", 0.03)


DATA = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
kinds = torch.arange(4).repeat_interleave(80)
x = torch.randn(4, 6)[kinds] + 0.1 * torch.randn(320, 6)
{data}
model = nn.Linear(6, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
def step(x, y):
    optimizer.zero_grad()
    {loss}
    loss.backward()
    optimizer.step()
    time.sleep(0.01)
"""
CLASSES = "loss = 0.5 * nn.functional.cross_entropy(model(x), y)"
LOADER = """
for epoch in range(6):
    for x_, y_ in DataLoader(TensorDataset(x, kinds), 20{options}):
        step(x_, y_)
"""
SLICES = """
for epoch in range(12):
    for k in range(0, len(x), 20):
        step(x[k : k + 20], kinds[k : k + 20])
"""
INDICES = """
order = torch.arange(len(x))
for epoch in range(24):
    {each}
    for i in order.split(40):
        step(x[i], kinds[i])
"""


def script(loop, *, data="", loss=CLASSES):
    return DATA.format(data=data, loss=loss) + loop


def test_a_loader_that_reads_sorted_rows(observed):
    order = observed(script(LOADER.format(options=""))).order
    assert order.alike > 0.9
    assert order.deviations > 20
    assert order.loader is not None
    assert (order.per_update, order.windows) == (1.0, False)


def test_batches_that_are_slices(observed):
    order = observed(script(SLICES)).order
    assert order.alike > 0.9
    assert order.period == 16
    assert order.repeated >= 4


def test_batches_of_indices_are_compared_by_their_numbers(observed):
    order = observed(script(INDICES.format(each=""))).order
    assert order.alike > 0.9
    assert order.period == 8


@pytest.mark.parametrize(
    "text",
    [
        script(LOADER.format(options=", shuffle=True")),
        script(INDICES.format(each="order = torch.randperm(len(x))")),
        # Each epoch in another place of memory, and in another order.
        script(
            SLICES.replace(
                "    for k", "    i = torch.randperm(320); x, kinds = x[i], kinds[i]\n    for k"
            )
        ),
    ],
)
def test_another_order_in_each_epoch_is_none(observed, text):
    assert observed(text).order is None


@pytest.mark.parametrize("loop", [LOADER.format(options=""), SLICES])
def test_rows_that_were_shuffled_once_are_not_alike(observed, loop):
    shuffled = "i = torch.randperm(320); x, kinds = x[i], kinds[i]"
    order = observed(script(loop, data=shuffled)).order
    assert abs(order.alike) < 0.1
    assert order.deviations < 6


def test_numbers_as_targets(observed):
    loss = "loss = nn.functional.mse_loss(model(x)[:, 0], y)"
    order = observed(script(SLICES, data="kinds = kinds + 0.1 * torch.randn(320)", loss=loss)).order
    assert order.values is None
    assert order.alike > 0.8


def test_windows_of_a_series_are_called_so(observed):
    data = "s = torch.randn(325).cumsum(0); x, kinds = s.unfold(0, 6, 1), s[5:]"
    loss = "loss = nn.functional.mse_loss(model(x)[:, 0], y)"
    assert observed(script(SLICES, data=data, loss=loss)).order.windows


@pytest.mark.parametrize(
    ("data", "loss"),
    [
        # A state that goes on from batch to batch: given, or kept.
        (
            "rnn = nn.RNN(6, 6); state = torch.zeros(1, 6)",
            "global state; out, state = rnn(x, state.detach()); "
            "loss = nn.functional.cross_entropy(model(out), y)",
        ),
        (
            "class Memory(nn.Linear):\n"
            "    state = 0.0\n"
            "    def forward(self, x):\n"
            "        self.kept = super().forward(x).mean(0).detach() + self.state\n"
            "        self.state = self.kept\n"
            "        return super().forward(x) + self.kept\n"
            "memory = Memory(6, 4)",
            "loss = nn.functional.cross_entropy(memory(x) + 0 * model(x), y)",
        ),
        # Targets of tokens, and targets that are the inputs, are of no kind.
        ("", "loss = nn.functional.cross_entropy(model(x).repeat(2, 1), y.repeat(2))"),
        (
            "x = x.repeat(1, 10); head = nn.Linear(60, 60)",
            "loss = nn.functional.mse_loss(head(x), x)",
        ),
    ],
)
def test_what_needs_its_order_or_has_no_target_of_a_row(observed, data, loss):
    assert observed(script(SLICES, data=data, loss=loss)).order is None


def test_a_stream_is_not_judged(observed):
    data = """
from torch.utils.data import IterableDataset
class Stream(IterableDataset):
    def __iter__(self):
        return iter(TensorDataset(x, kinds))
"""
    loop = LOADER.format(options="").replace("TensorDataset(x, kinds)", "Stream()")
    assert observed(script(loop, data=data)).order is None


def test_an_update_of_the_whole_epoch_has_no_order(observed):
    whole = """
for epoch in range(40):
    optimizer.zero_grad()
    for k in range(0, len(x), 20):
        nn.functional.cross_entropy(model(x[k : k + 20]), kinds[k : k + 20]).backward()
    optimizer.step()
    time.sleep(0.01)
"""
    assert observed(script(whole)).order is None


def test_the_order_by_hashes():
    epochs = {n: n % 10 for n in (0, 1, 2, 3, 4, 5, 11, 14, 22, 35, 38)}
    assert fixed_order(epochs) == (10, 4)
    assert fixed_order({**epochs, 40: 99}) == (None, 0)  # another batch in the place of the first
    assert fixed_order({n: n % 4 for n in range(20)}) == (None, 0)  # too few updates an epoch
    assert fixed_order({n: n for n in range(20)}) == (None, 0)


def test_the_order_in_memory():
    places = {n: (1, 5 + 20 * (n % 12)) for n in (1, 2, 3, 15, 31, 40, 48)}
    assert in_memory_order(places) == (12, 4)
    assert in_memory_order({**places, 60: (2, 5)}) == (None, 0)
    assert in_memory_order({**places, 60: (1, 5 + 7)}) == (None, 0)
    assert in_memory_order({**places, 60: (1, 5 + 20)}) == (None, 0)
    assert in_memory_order({**places, 60: None}) == (None, 0)
    assert in_memory_order({n: places[n] for n in (1, 3, 15, 31, 40, 48)}) == (None, 0)


def test_pairs_of_a_class_in_each_update_are_not_alike():
    generator = torch.Generator().manual_seed(0)
    some = [torch.randperm(60, generator=generator)[:16].repeat_interleave(4) for _ in range(20)]
    measured = alike([[update[:, None]] for update in some])
    assert measured.alike < 0.2


def test_one_class_or_few_rows_cannot_be_compared():
    assert alike([[torch.zeros(8, 1)]] * 8) is None
    assert alike([[torch.arange(2)[:, None]]] * 8) is None
    assert alike([[torch.full((9, 1), n)] for n in range(5)]) is None
    assert alike([[torch.full((8, 1), float("nan"))]] * 8) is None
