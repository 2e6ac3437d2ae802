"""What is trained is what was meant, and what never learns is found."""

import pytest
import torch
from tests.golden.adapting import loss_of, tiny
from torch import nn

from hotloop.core.errors import ConfigError
from hotloop.models.adapters.attach import attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.trainable_parameters import Gradients, check_trainable, trainable


def with_adapters(kind="lora", name="roberta", **values):
    model = tiny(name)
    attach(model, AdapterConfig(kind=kind, rank=4, **values))
    return model


def test_what_is_trained_is_counted_by_group():
    model = with_adapters(targets=("query",), modules_to_save=("classifier",))
    found = trainable(model, head=["classifier"])
    adapters, head = found.groups
    assert (adapters.name, len(adapters.names), adapters.numbers) == ("adapters", 4, 2 * 4 * 64)
    assert (head.name, len(head.names)) == ("head", 4)
    assert head.numbers == 32 * 32 + 32 + 3 * 32 + 3
    total = sum(parameter.numel() for parameter in model.parameters())
    assert found.numbers == total
    assert found.share == (adapters.numbers + head.numbers) / total
    assert f"trains {adapters.numbers + head.numbers:,} of {total:,} parameters" in str(found)
    assert "adapters 512 in 4 (roberta.encoder.layer.0.attention.self.query.lora_A" in str(found)


def test_long_lists_are_cut_where_they_are_printed():
    assert "and 23 more)" in str(trainable(with_adapters(name="qwen3")))


def test_a_frozen_model_trains_nothing():
    model = tiny("qwen3").requires_grad_(False)
    assert trainable(model).groups == ()
    assert trainable(model).share == 0
    assert "nothing" in str(trainable(model))


@pytest.mark.parametrize("kind", ["lora", "dora", "ia3"])
def test_adapters_alone_are_what_was_meant(kind):
    (group,) = check_trainable(with_adapters(kind), means="adapters").groups
    assert group.name == "adapters"


def test_a_head_that_was_not_meant_is_named():
    model = with_adapters(modules_to_save=("classifier",))
    with pytest.raises(ConfigError, match=r"4 are trained and should not be: classifier\.dense\.w"):
        check_trainable(model, means="adapters")
    found = check_trainable(model, means="adapters", head=["classifier"])
    assert [group.name for group in found.groups] == ["adapters", "head"]


def test_what_was_frozen_by_mistake_is_named():
    model = with_adapters(modules_to_save=("classifier",))
    model.classifier.out_proj.requires_grad_(False)
    model.roberta.embeddings.word_embeddings.requires_grad_(True)
    with pytest.raises(ConfigError) as raised:
        check_trainable(model, means="adapters", head=["classifier"])
    text = str(raised.value)
    assert "training adapters and classifier means" in text
    assert "1 are trained and should not be: roberta.embeddings.word_embeddings.weight" in text
    assert "2 should be trained and are not: classifier.out_proj.weight, classifier.out_" in text


def test_a_head_alone_and_everything_are_checked_too():
    model = tiny("roberta")
    check_trainable(model, means="all")
    with pytest.raises(
        ConfigError, match=r"the head alone means, .* are trained and should not be"
    ):
        check_trainable(model, means="head", head=["classifier"])
    model.roberta.requires_grad_(False)
    assert [g.name for g in check_trainable(model, means="head", head=["classifier"]).groups] == [
        "head"
    ]
    with pytest.raises(ConfigError, match="should be trained and are not: roberta"):
        check_trainable(model, means="all")


def test_a_meaning_that_the_model_cannot_have_is_refused():
    with pytest.raises(ConfigError, match="means adapters, and the model has no adapters"):
        check_trainable(tiny("roberta"), means="adapters")
    with pytest.raises(ConfigError, match="the model has none: only its head"):
        check_trainable(tiny("roberta"), means="adapters", head=["classifier"])
    with pytest.raises(ConfigError, match="the model has no head"):
        check_trainable(tiny("roberta"), means="head")
    with pytest.raises(ConfigError, match="did you mean classifier"):
        check_trainable(tiny("roberta"), means="head", head=["clasifier"])


def steps(model, watch, count=3, lr=1e-2):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
    for step in range(count):
        loss_of(model, step).backward()
        watch.look()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("kind", ["lora", "dora", "ia3"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_adapters_that_learn_are_not_dead(kind, count):
    """After one step A has had no gradient, because B was 0: it is not judged yet."""
    model = with_adapters(kind)
    watch = Gradients(model)
    steps(model, watch, count)
    assert watch.dead() == []
    watch.refuse_dead()


def test_an_a_is_not_judged_while_a_warm_up_keeps_b_at_zero():
    model = with_adapters()
    watch = Gradients(model)
    steps(model, watch, lr=0.0)
    assert watch.dead() == []


def test_what_the_loss_does_not_see_is_named():
    model = with_adapters(modules_to_save=("classifier",))
    unseen = nn.Linear(4, 4)
    model.add_module("unseen", unseen)
    watch = Gradients(model)
    steps(model, watch)
    assert watch.dead() == ["unseen.weight", "unseen.bias"]
    with pytest.raises(ConfigError, match=r"2 of \d+ .*in the first 3 steps.*unseen\.weight"):
        watch.refuse_dead()


def test_adapters_on_what_is_not_used_are_dead():
    """As those on a pooler whose output nobody takes."""
    model = nn.ModuleDict({"used": nn.Linear(6, 6), "pooler": nn.Linear(6, 6)})
    attach(model, AdapterConfig(kind="dora", rank=2))
    watch = Gradients(model)
    for _ in range(2):
        loss = model["used"](torch.ones(2, 6)).square().sum()
        loss = loss + 0.0 * model["pooler"](torch.ones(2, 6)).sum()  # gradients of exactly 0
        loss.backward()
        watch.look()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
    # its A is not judged: B has never moved, and is named itself
    assert watch.dead() == ["pooler.lora_B", "pooler.lora_magnitude_vector"]


def test_a_gradient_that_is_not_finite_is_no_death():
    model = nn.Linear(2, 2, bias=False)
    watch = Gradients(model)
    model.weight.grad = torch.full_like(model.weight, torch.nan)
    watch.look()
    assert watch.dead() == []


def test_an_overflow_elsewhere_makes_nothing_dead():
    """As fp16 does until its loss scale has come down: the others' gradients are no rounding."""
    model = nn.ModuleList([nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)])
    watch = Gradients(model)
    for layer, value in zip(model, (torch.inf, 1.0), strict=True):
        layer.weight.grad = torch.full_like(layer.weight, value)
    watch.look()
    assert watch.dead() == []


def test_what_is_only_rounding_is_none_for_a_matrix_and_may_be_for_a_vector():
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    watch = Gradients(model)
    for layer, value in zip(model, (1.0, 1e-9), strict=True):
        for parameter in layer.parameters():
            parameter.grad = torch.full_like(parameter, value)
    watch.look()
    assert watch.dead() == ["1.weight"]


def test_nothing_is_dead_before_it_was_looked_at():
    assert Gradients(tiny("roberta")).dead() == []
