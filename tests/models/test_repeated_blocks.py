from torch import nn

from hotloop.models.gpt import Gpt
from hotloop.models.repeated_blocks import repeated_blocks


def test_the_blocks_of_a_transformer_are_found() -> None:
    model = Gpt(vocabulary=7, layers=3, heads=2, width=8, context=8)
    assert repeated_blocks(model) == list(model.blocks)


def test_a_list_of_one_or_of_several_types_does_not_repeat() -> None:
    one, mixed = nn.ModuleList([nn.Linear(2, 2)]), nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])
    assert repeated_blocks(nn.ModuleDict({"one": one, "mixed": mixed})) == []
    same = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 3)])
    assert repeated_blocks(nn.ModuleDict({"mixed": mixed, "same": same})) == list(same)
