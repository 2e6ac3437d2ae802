"""Where a model in evaluation mode still drops numbers."""

import inspect

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as users write it

from hotloop.observe.probes.dropout_in_evaluation import drops_in_evaluation, may_drop

X = torch.linspace(-1, 1, 2 * 4 * 8).reshape(2, 4, 8)


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.dropout, self.held = nn.Linear(8, 8), nn.Dropout(0.5), [nn.Dropout(0.5)]


class Functional(Base):
    def forward(self, x):
        return self.layer(F.dropout(x, 0.5))


class MadeAnew(Base):
    def forward(self, x):
        return self.layer(nn.Dropout(0.5)(x))


class InAList(Base):
    def forward(self, x):
        for dropout in self.held:
            x = dropout(x)
        return self.layer(x)


class Attention(Base):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, self.layer(x), None, 0.1)


class AttentionByName(Base):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, self.layer(x), dropout_p=0.1)


class Asked(Base):
    def forward(self, x):
        return self.layer(F.dropout(x, 0.5, self.training))


class Registered(Base):
    def forward(self, x):
        return self.layer(self.dropout(x))


class OnPurpose(Base):
    def forward(self, x):
        return self.layer(F.dropout(x, 0.5, training=True))


class OnPurposeByPlace(Base):
    def forward(self, x):
        return self.layer(F.dropout(x, 0.5, True))


class Nothing(Base):
    def forward(self, x):
        return self.layer(F.dropout(x, 0.0))


class AlphaIsOffUnlessAsked(Base):
    def forward(self, x):
        return self.layer(F.alpha_dropout(x, 0.5))


@pytest.mark.parametrize("net", [Functional, MadeAnew, InAList, Attention, AttentionByName])
def test_the_line_that_drops_is_named(net):
    model, state = net(), torch.get_rng_state()
    assert may_drop(model)
    (place,) = drops_in_evaluation(model, (X,), {})
    lines, first = inspect.getsourcelines(net)
    assert place.file == __file__
    assert first < place.line < first + len(lines)
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "net", [Asked, Registered, OnPurpose, OnPurposeByPlace, Nothing, AlphaIsOffUnlessAsked]
)
def test_what_is_off_or_on_purpose_is_not_named(net):
    model = net()
    assert drops_in_evaluation(model, (X,), {}) == ()


def test_torch_s_own_layers_pass_their_mode_on():
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True)
    assert not may_drop(model)
    assert drops_in_evaluation(model, (X,), {}) == ()
