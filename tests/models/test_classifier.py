"""A classifier's logits and gradients are those of each text alone, padded or flat."""

import pytest
import torch
from tests.golden.tiny_models import CONFIGS, WIDTH, documents, loaded, packed, padded, saved

from hotloop.models.classifier import Classifier
from hotloop.models.pooling import KINDS, Pooling

TEXTS = documents(5, 9, 1, 12, 7)
LABELS = torch.tensor([0, 2, 1, 1, 0])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {name: saved(root / name, name) for name in CONFIGS}


def made(folder, kind="mean", *, dtype=torch.float32, bidirectional=False, **options):
    backbone = loaded(folder, dtype=dtype, bidirectional=bidirectional)
    torch.manual_seed(3)
    pooling = Pooling(kind, width=backbone.width, tokens=2)
    return Classifier(backbone, pooling, classes=3, **options).eval()


def loss_and_grads(model, *batches):
    logits = torch.cat([model(batch) for batch in batches])
    loss = torch.nn.functional.cross_entropy(logits, LABELS)
    names = [n for n, _ in model.named_parameters()]
    grads = torch.autograd.grad(loss, list(model.parameters()))
    return logits, loss, dict(zip(names, grads, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CONFIGS)
def test_layouts_agree_with_each_text_alone(folders, name, kind):
    model = made(folders[name], kind, hidden=(16, 8), dropout=0.3, bidirectional=name == "gemma3")
    alone = loss_and_grads(model, *({"input_ids": text[None]} for text in TEXTS))
    assert alone[0].shape == (5, 3)
    for batch in (packed(TEXTS), padded(TEXTS, to=16)):
        logits, loss, grads = loss_and_grads(model, batch)
        torch.testing.assert_close(logits, alone[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(loss, alone[1], rtol=1e-6, atol=0)
        largest = max(float(grad.abs().max()) for grad in alone[2].values())
        for key, grad in grads.items():
            assert float((grad - alone[2][key]).abs().max()) < 1e-5 * largest, key


def test_every_parameter_of_the_head_learns(folders):
    model = made(folders["bert"], hidden=(16, 8)).train()
    torch.nn.functional.cross_entropy(model(padded(TEXTS)), LABELS).backward()
    sizes = [(m.in_features, m.out_features) for m in model.head if hasattr(m, "in_features")]
    assert sizes == [(WIDTH, 16), (16, 8), (8, 3)]
    assert all(p.grad.any() for p in model.head.parameters())


def test_dropout_stands_before_each_layer_of_the_head(folders):
    model = made(folders["bert"], hidden=(16,), dropout=0.5)
    kinds = [type(layer).__name__ for layer in model.head]
    assert kinds == ["Dropout", "Linear", "GELU", "Dropout", "Linear"]
    assert {layer.p for layer in model.head if hasattr(layer, "p")} == {0.5}
    assert [type(layer).__name__ for layer in made(folders["bert"]).head] == ["Linear"]


def test_the_head_is_drawn_from_the_stream_of_the_caller(folders):
    one, other = made(folders["bert"]).head[0], made(folders["bert"]).head[0]
    assert torch.equal(one.weight, other.weight)
    assert 0.01 < float(one.weight.detach().std()) < 0.03
    assert not one.bias.any()


@pytest.mark.parametrize("layout", [packed, lambda *rows: padded(rows[0])])
def test_it_runs_in_bfloat16_and_under_autocast(folders, layout):
    full = made(folders["qwen3"])(layout(TEXTS))
    half = made(folders["qwen3"]).bfloat16()
    assert half(layout(TEXTS)).dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = made(folders["qwen3"])(layout(TEXTS))
    assert (mixed - full).abs().max() < 0.1 * full.abs().max()


def test_the_vocabulary_is_there_once(folders):
    for name in CONFIGS:
        model = made(folders[name])
        assert sum(61 in p.shape for p in model.parameters()) == 1
