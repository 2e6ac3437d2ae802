"""The proofs tell a model that is what it is said to be from one that is not."""

import pytest
import torch
from tests.golden.tiny_models import CONFIGS, DECODERS, isolation, loaded, saved, written

from hotloop.core.errors import DeviceError
from hotloop.models.attention.in_transformers import looks_of
from hotloop.models.attention_proofs import head_is_whole, keeps_apart, sees_ahead
from hotloop.models.backbone import load_backbone
from hotloop.models.causal_lm import CausalLm
from hotloop.models.weights.discovery import find_model

every_model = pytest.mark.parametrize("name", CONFIGS)
every_decoder = pytest.mark.parametrize("name", DECODERS)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {name: saved(root / name, name) for name in CONFIGS}


@every_model
def test_a_decoder_sees_ahead_only_if_it_is_told_to(folders, name):
    assert sees_ahead(loaded(folders[name])) == (name not in DECODERS)
    assert sees_ahead(loaded(folders[name], bidirectional=True))


@every_decoder
def test_an_option_that_changes_nothing_is_seen(folders, name):
    backbone = loaded(folders[name], bidirectional=True)
    told = backbone.model.config
    assert (getattr(told, "is_causal", None) is False) != (name == "gemma3")
    told.is_causal = True
    for module in backbone.modules():
        if getattr(module, "is_causal", None) is False:
            module.is_causal = True
    backbone.looks = looks_of(backbone.model)
    assert not sees_ahead(backbone)


@every_decoder
def test_freshly_drawn_weights_are_told_apart_as_well(tmp_path, name):
    written(tmp_path, name)
    for bidirectional in (False, True):
        backbone = load_backbone(
            find_model(str(tmp_path), weights=False),
            head=False,
            isolation=isolation(),
            weights=False,
            bidirectional=bidirectional,
        )
        assert sees_ahead(backbone) == bidirectional
        assert keeps_apart(backbone)


@every_model
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_documents_are_kept_apart(folders, name, dtype):
    assert keeps_apart(loaded(folders[name], dtype=dtype))


@pytest.mark.parametrize("name", ["roberta", "bert"])
def test_a_leak_is_seen(folders, name):
    backbone = loaded(folders[name])
    backbone.model.set_attn_implementation("sdpa")
    assert not keeps_apart(backbone)


@pytest.mark.parametrize("name", ["roberta", "bert"])
def test_positions_that_begin_elsewhere_are_seen(folders, name):
    backbone = loaded(folders[name])
    inner = backbone._positions
    backbone._positions = lambda batch, at: inner(batch, at) + (at is not None)
    assert not keeps_apart(backbone)


@every_decoder
def test_a_head_is_whole(folders, name):
    assert head_is_whole(CausalLm(loaded(folders[name], head=True)))


def test_a_head_with_something_before_the_loss_is_seen(folders, tmp_path):
    model = CausalLm(loaded(saved(tmp_path, "gemma3", final_logit_softcapping=3.0), head=True))
    assert head_is_whole(model)
    model.softcap = None
    assert not head_is_whole(model)


def test_what_differs_at_each_call_cannot_be_proved(folders):
    backbone = loaded(folders["bert"])
    backbone.model.register_forward_hook(
        lambda _, __, out: setattr(out, "last_hidden_state", torch.rand(1, 8, 32)) or out
    )
    for proof in (sees_ahead, keeps_apart):
        with pytest.raises(DeviceError, match="differs from one call to the next"):
            proof(backbone)


def test_proofs_leave_the_model_as_it_was(folders):
    backbone = loaded(folders["bert"], attention_dropout=0.1).train()
    backbone.model.encoder.eval()
    modes = [module.training for module in backbone.modules()]
    before = torch.get_rng_state()
    for proof in (sees_ahead, keeps_apart):
        proof(backbone)
    assert torch.equal(before, torch.get_rng_state())
    assert modes == [module.training for module in backbone.modules()]
    assert all(p.grad is None for p in backbone.parameters())
