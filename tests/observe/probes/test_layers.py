"""What a model's modules say about themselves."""

from pathlib import Path

from torch import nn

from hotloop.observe.probes.layers import built_at, facts, layers


class Net(nn.Module):
    """A model with a part of each kind."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(4, 4)])
        self.attention = nn.MultiheadAttention(4, 2, dropout=0.3)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.tail = nn.Sequential(nn.Dropout(0.1), nn.Linear(4, 4))


def test_layers_are_described_by_their_names():
    found = {layer.name: layer for layer in layers(Net()).values()}
    assert found["parts"].container
    assert not found["parts.0"].container
    assert found["parts.0"].product
    assert found["attention.out_proj"].within_attention
    assert found["frozen"].frozen
    assert not found["tail"].frozen
    assert found["frozen"].numbers == 20
    assert found["frozen"].steady
    assert not found["tail"].steady
    assert not found["tail"].own
    assert len(found["tail.1"].own) == 2


def test_a_model_in_evaluation_mode_draws_nothing():
    assert all(layer.steady for layer in layers(Net().eval()).values())


def test_facts_are_taken_from_the_modules():
    found = facts(Net())
    assert found["dropout"] == 0.3
    assert found["normalised"] is False
    assert found["channels_last"] is None
    assert found["adapters"] == ()
    assert facts(nn.DataParallel(nn.Linear(2, 2)))["wrapped"] == "DataParallel"


def test_a_module_is_built_where_its_attribute_is_set():
    lines = Path(__file__).read_text().splitlines()
    assert "self.tail =" in lines[built_at(Net(), "tail.1").line - 1]
    assert built_at(nn.Sequential(nn.Linear(2, 2)), "0") is None  # a library's
