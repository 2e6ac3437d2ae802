"""A loader serves one batch again and again, and the losses of that batch are kept."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from hotloop.observe.experiments.blocks import Blocks
from hotloop.observe.experiments.same_batch import SameBatch
from hotloop.observe.experiments.variants import Variant
from hotloop.observe.whatif.batch_replay import Loaders
from hotloop.observe.whatif.without_one_cost import Patches


@pytest.fixture
def loaders():
    patches = Patches()
    yield Loaders(patches, switched=True)
    patches.undo()


def trained(loaders, change: Variant, labels: torch.Tensor, *, on_from: int, steps: int = 80):
    """Train for some steps, the later ones with the change; return the rows of each step."""
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(160, 8), labels), batch_size=16, shuffle=True)
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    seen: list[torch.Tensor] = []
    while len(seen) < steps:
        for rows, answers in loader:
            if len(seen) == on_from:
                assert change.prepare() is None
                change.switch_on()
            loss = nn.functional.cross_entropy(model(rows), answers)
            optimizer.zero_grad()
            loss.backward()
            loaders.backward()
            change.note_backward(loss)
            optimizer.step()
            loaders.step()
            change.ended_step()
            seen.append(rows)
    change.switch_off()
    return seen


def test_one_batch_is_served_until_the_change_ends(loaders):
    change = SameBatch(loaders)
    seen = trained(loaders, change, torch.randint(2, (160,)), on_from=20)
    after = seen[21:]  # that of the step in which the change came was read before
    assert all(torch.equal(rows, after[0]) for rows in after)
    assert not torch.equal(seen[0], seen[1])
    first, last = change.losses
    assert last < first  # even labels without a meaning can be learned of 16 rows


def test_what_the_script_changes_in_place_comes_unchanged_again(loaders):
    change = SameBatch(loaders)
    loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.arange(64)), batch_size=16)
    weight = torch.ones(8, requires_grad=True)
    seen: list[torch.Tensor] = []
    for epoch in range(3):
        if epoch == 1:
            change.switch_on()
        for rows, _ in loader:
            seen.append(rows.clone())
            (rows.div_(255) @ weight).sum().backward()
            loaders.backward()
            loaders.step()
    change.switch_off()
    assert all(torch.equal(rows, seen[-1]) for rows in seen[4:])


def test_few_steps_say_nothing(loaders):
    change = SameBatch(loaders)
    trained(loaders, change, torch.randint(2, (160,)), on_from=60)
    assert change.losses is None


def test_it_is_made_at_the_end_and_not_timed(loaders):
    class Noted(SameBatch):
        def prepare(self):
            return None

    change = Noted(loaders)
    blocks = Blocks([change], seconds=1.0)
    states = []
    while blocks.ended_step():
        states.append(blocks.running)
    assert states.count(0) == change.untimed_steps
    assert not blocks.readings[0].ratios
    assert not loaders.one_batch
