"""The loss of a language model without needless logits is that of all logits."""

import pytest
import torch
from benchmarks.shifted_loss import shifted_loss
from tests.golden.tiny_models import (
    DECODERS,
    VOCABULARY,
    documents,
    isolation,
    loaded,
    packed,
    padded,
    saved,
    written,
)
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from hotloop.core.errors import ConfigError
from hotloop.jobs.forecast.memory_forecast import Tracker
from hotloop.models.backbone import load_backbone
from hotloop.models.causal_lm import CausalLm
from hotloop.models.weights.discovery import find_model

TEXTS = documents(5, 9, 1, 12, 7)
every_decoder = pytest.mark.parametrize("name", [*DECODERS, "capped"])
every_layout = pytest.mark.parametrize("layout", [packed, lambda *rows: padded(rows[0])])
every_way = pytest.mark.parametrize("way", ["whole", "fused", "chunks"])


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    made = {name: saved(root / name, name) for name in DECODERS}
    made["capped"] = saved(root / "capped", "gemma3", final_logit_softcapping=3.0)
    return made


def labelled(batch, *, share=0.4, seed=0):
    """Give some tokens a label, none of them the first of a document or padding."""
    ids = batch["input_ids"]
    made = torch.Generator().manual_seed(seed)
    labels = torch.where(torch.rand(ids.shape, generator=made) < share, ids, -100)
    labels[:, 0] = -100
    labels[~batch.get("attention_mask", torch.ones_like(ids, dtype=torch.bool))] = -100
    if (places := batch.get("position_ids")) is not None:
        labels[places == 0] = -100
    return {**batch, "labels": labels}


class Adapted(torch.nn.Linear):
    """A head that is more than a linear layer, as an adapter makes it, in place."""


def made(folder, way="whole", **options):
    backbone = loaded(folder, head=True, **options)
    if way == "chunks":
        backbone.head.__class__ = Adapted
    rows = 3 * 4 * VOCABULARY  # three rows at a time
    model = CausalLm(
        backbone, cross_entropy="whole" if way == "whole" else "fused", chunk_bytes=rows
    )
    assert model.head_is_linear == (way != "chunks")
    return model


def grads_of(loss, model):
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))


def distance(found, exact):
    """Return the largest difference of gradients, as a share of the largest gradient."""
    largest = max(float(grad.abs().max()) for grad in exact.values())
    furthest = max(float((grad - exact[key]).abs().max()) for key, grad in found.items())
    return furthest / largest


@every_way
@every_layout
@every_decoder
@pytest.mark.parametrize("counted", [False, True])
def test_it_is_the_loss_of_all_logits(folders, name, layout, way, counted):
    model, batch = made(folders[name], way), labelled(layout(TEXTS))
    expected = shifted_loss(model.logits(batch), batch["labels"])
    assert float(expected.detach()) > 1
    double = made(folders[name], way).double()
    exact = grads_of(shifted_loss(double.logits(batch), batch["labels"]), double)
    rounding = distance(grads_of(expected, model), exact)  # of fp32, which is up to 3e-6
    if counted:
        batch["targets"] = int((batch["labels"] != -100).sum())
    loss = model(batch)
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    assert distance(grads_of(loss, model), exact) < max(1e-6, 2 * rounding)


@every_decoder
def test_it_is_the_loss_that_transformers_makes(folders, name):
    import transformers

    transformers.utils.logging.set_verbosity_error()
    other = transformers.AutoModelForCausalLM.from_pretrained(folders[name], dtype=torch.float32)
    batch = labelled(padded(TEXTS))
    theirs = {key: batch[key] for key in ("input_ids", "attention_mask", "labels")}
    torch.testing.assert_close(made(folders[name])(batch), other(**theirs).loss)


@every_way
@every_layout
def test_without_a_label_loss_and_gradients_are_zero(folders, layout, way):
    model, batch = made(folders["qwen3"], way), labelled(layout(TEXTS), share=0)
    for more in ({}, {"targets": 0}):
        loss = model({**batch, **more})
        assert float(loss.detach()) == 0
        assert all(not grad.any() for grad in grads_of(loss, model).values())


def test_a_count_above_what_there_is_changes_only_the_mean(folders):
    model, batch = made(folders["qwen3"]), labelled(packed(TEXTS))
    count = int((batch["labels"] != -100).sum())
    more = model({**batch, "targets": count + 5})
    torch.testing.assert_close(more * (count + 5), model(batch) * count)


@every_layout
def test_a_known_count_changes_nothing_of_what_is_judged(folders, layout):
    """The null card's tests hold that the host then does not wait for the positions."""
    model, batch = made(folders["qwen3"]), labelled(layout(TEXTS))
    count = int((batch["labels"] != -100).sum())
    with torch.no_grad():
        found, wanted = model.judged({**batch, "targets": count}), model.judged(batch)
        torch.testing.assert_close(wanted.loss, model(batch))
    assert len(found.at) == count > 0
    for field in ("loss", "at", "label", "said"):
        assert torch.equal(getattr(found, field), getattr(wanted, field)), field


@every_way
def test_logits_are_made_only_where_a_label_carries_loss(folders, way):
    model, seen = made(folders["qwen3"], way), []
    if way == "fused":  # it takes the head's weight, and does not call it
        assert model.head_is_linear
        return
    model.backbone.head.register_forward_hook(lambda *a: seen.append(len(a[1][0])))
    batch = labelled(packed(TEXTS))
    model(batch)
    count = int((batch["labels"] != -100).sum())
    assert sum(seen) == count < batch["labels"].numel()
    assert max(seen) == (3 if way == "chunks" else count)


def test_the_last_token_of_a_document_predicts_nothing_of_the_next(folders):
    model = made(folders["llama"])
    batch = labelled(packed(TEXTS), share=1)
    alone = [{"input_ids": text[None], "labels": text[None]} for text in TEXTS if len(text) > 1]
    total = sum(model(one) * (one["labels"].numel() - 1) for one in alone)
    count = sum(len(text) - 1 for text in TEXTS)
    torch.testing.assert_close(model(batch), total / count)


@every_way
def test_it_runs_under_autocast_and_in_bfloat16(folders, way):
    batch = labelled(packed(TEXTS))
    full = float(made(folders["qwen3"])(batch).detach())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = made(folders["qwen3"], way)(batch)
    half = made(folders["qwen3"], way, dtype=torch.bfloat16)(batch)
    for loss in (mixed, half):
        assert abs(float(loss.detach()) - full) < 0.05 * full
        loss.backward()


def test_the_fused_loss_holds_less(tmp_path):
    """Peak bytes of one step with a vocabulary of 16,384 and 512 positions, as torch counts them.

    The logits alone are 32 MiB, whole with their gradient and softmax about three times that.
    """
    written(tmp_path, "gemma3", vocab_size=1 << 14)
    peaks = {}
    for way in ("whole", "fused", "chunks"):
        with Tracker() as seen:
            backbone = load_backbone(
                find_model(str(tmp_path), weights=False),
                head=True,
                isolation=isolation(),
                weights=False,
            )
            if way == "chunks":
                backbone.head.__class__ = Adapted
            cross_entropy = "whole" if way == "whole" else "fused"
            model = CausalLm(backbone, cross_entropy=cross_entropy, chunk_bytes=1 << 22)
            ids = torch.randint(3, 1 << 14, (1, 512))
            seen.peak = 0
            model({"input_ids": ids, "labels": ids}).backward()
            peaks[way] = seen.peak / 2**20
    assert peaks["fused"] < peaks["whole"] - 60
    assert peaks["chunks"] < peaks["whole"] - 60


def test_a_forecast_counts_every_position(folders):
    batch = labelled(packed(TEXTS))
    with FakeTensorMode(allow_non_fake_inputs=True), Tracker() as seen:
        model = made(folders["qwen3"])
        labels = batch["labels"].clone()
        fake = {**batch, "labels": labels, "input_ids": batch["input_ids"].clone()}
        model(fake).backward()
        assert seen.flops > 0
        seen.flops = 0
        model({**fake, "targets": 7}).backward()
        fewer = seen.flops
        seen.flops = 0
        model(fake).backward()
        assert seen.flops > fewer


def test_what_cannot_be_trained_is_refused(folders, tmp_path):
    with pytest.raises(ConfigError, match="qwen3 was loaded without its head"):
        CausalLm(loaded(folders["qwen3"]))
    with pytest.raises(ConfigError, match="expected one of whole, fused, got 'fuse'; did you mean"):
        CausalLm(loaded(folders["qwen3"], head=True), cross_entropy="fuse")
    scaled = loaded(folders["qwen3"], head=True)
    scaled.model.config.logits_scaling = 8.0
    with pytest.raises(ConfigError, match=r"qwen3 scales its logits \(logits_scaling=8.0\)"):
        CausalLm(scaled)


@every_layout
@every_decoder
def test_the_losses_of_labels_in_parts_are_those_of_all_logits(folders, name, layout):
    """Where the head is frozen; made() takes three rows at a time."""
    batch, found = labelled(layout(TEXTS)), []
    for is_frozen in (False, True):
        model = made(folders[name])
        model.backbone.head.weight.requires_grad_(not is_frozen)
        losses, at = model.losses(batch)
        model.zero_grad()
        (losses * torch.linspace(0, 1, len(at))).sum().backward()
        norm = dict(model.backbone.model.base_model.named_parameters())["norm.weight"]
        found.append((losses.detach(), at, norm.grad))
    assert len(found[0][1]) > 3
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", ["whole", "fused"])
def test_smoothing_and_z_loss_are_trained_and_not_judged(folders, way):
    batch = labelled(packed(TEXTS))
    plain = made(folders["qwen3"], way)
    model = CausalLm(plain.backbone, cross_entropy=way, label_smoothing=0.2, z_loss=0.1)
    logits = model.logits(batch)[:, :-1].flatten(0, 1)
    labels = batch["labels"][:, 1:].flatten()
    expected = functional.cross_entropy(logits, labels, label_smoothing=0.2)
    expected = expected + 0.1 * logits.logsumexp(-1)[labels != -100].square().mean()
    torch.testing.assert_close(model(batch), expected)
    torch.testing.assert_close(model.judged(batch).loss, plain(batch))
    model.backbone.head.__class__ = Adapted
    with pytest.raises(ConfigError, match="need a head that is a linear layer"):
        model(batch)


def test_a_cap_of_logits_is_kept(folders):
    model, batch = made(folders["capped"]), labelled(packed(TEXTS))
    logits = model.logits(batch).detach()
    assert model.softcap == 3.0
    assert 2 < float(logits.abs().max()) < 3
    kept = logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten()
    torch.testing.assert_close(model(batch), functional.cross_entropy(*kept))
