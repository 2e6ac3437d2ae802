"""State dicts that are kept: whether later updates write into them."""

import pytest

TRAIN = """
import copy
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
best = None
for step in range(12):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    if step % 4 == 1:
        best = {kept}
{end}
"""


def place(text: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), 1) if "best = " in line and n > 8)


@pytest.mark.parametrize("end", ["model.load_state_dict(best)", "best = None"])
def test_a_state_dict_that_is_no_copy_is_written_into(observed, end):
    text = TRAIN.format(kept="model.state_dict()", end=end)
    assert [at.line for at in observed(text).process.states_aliased] == [place(text)]


@pytest.mark.parametrize(
    "kept",
    [
        "copy.deepcopy(model.state_dict())",
        "{k: v.clone() for k, v in model.state_dict().items()}",
    ],
)
def test_a_copy_is_not(observed, kept):
    text = TRAIN.format(kept=kept, end="model.load_state_dict(best)")
    assert observed(text).process.states_aliased == ()


def test_a_state_dict_that_is_dropped_before_the_next_update_is_not(observed):
    text = TRAIN.format(kept="model.state_dict(); best = None", end="")
    assert observed(text).process.states_aliased == ()
