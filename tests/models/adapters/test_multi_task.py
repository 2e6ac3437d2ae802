"""Adapters of several tasks in one pass: what each row gets is what its own adapter alone gives."""

import copy
from operator import methodcaller

import pytest
import torch
from safetensors.torch import save_file
from tests.golden.adapting import QUIET
from tests.golden.tiny_models import documents, loaded, packed, padded, saved

from hotloop.core.errors import ConfigError
from hotloop.models.adapters.attach import adapted, attach, merged_state
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.multi_task import StackedLora, attach_stack
from hotloop.models.adapters.peft_files import adapter_state
from hotloop.models.trainable_parameters import Gradients

pytestmark = pytest.mark.filterwarnings(QUIET)
TASKS = ("sentiment", "questions", "code")
CONFIG = AdapterConfig(rank=3, alpha=5.0, seed=7)
LENGTHS, OF_ROW = (9, 4, 7, 9, 2, 5), (0, 2, 1, 0, 2, 1)
CLOSE = 2e-5
every_layout = pytest.mark.parametrize("layout", ["padded", "flat"])


@pytest.fixture(scope="module", params=["bert", "qwen3"])
def folder(request, tmp_path_factory):
    return saved(tmp_path_factory.mktemp(request.param) / "model", request.param)


@pytest.fixture
def stack(folder):
    """Return a backbone with a stack whose B are not 0, and the shares."""
    backbone = loaded(folder)
    shares = attach_stack(backbone.model, CONFIG, TASKS)
    torch.manual_seed(1)
    with torch.no_grad():
        for layer in adapted(backbone).values():
            layer.lora_B.normal_(std=0.1)
    return backbone, shares


def one_hot(*tasks):
    return torch.nn.functional.one_hot(torch.tensor(tasks), len(TASKS)).float()


def batch_of(layout):
    texts = documents(*LENGTHS)
    return padded(texts) if layout == "padded" else packed(texts)


def hidden(backbone, batch):
    """Return the hidden states of each document."""
    out = backbone(batch)
    if "boundaries" in batch:
        return out[0].split(LENGTHS)
    return [row[:length] for row, length in zip(out, LENGTHS, strict=True)]


def alone(folder, stack, task):
    """Return the same model with one task's adapter, as LoRA layers."""
    backbone = loaded(folder)
    attach(backbone.model, CONFIG)
    layers = adapted(stack)
    with torch.no_grad():
        for name, layer in adapted(backbone).items():
            own = layers[name].of_task(task)
            layer.lora_A.copy_(own["lora_A.weight"])
            layer.lora_B.copy_(own["lora_B.weight"])
    return backbone


@every_layout
def test_a_mixed_batch_gives_each_row_what_its_adapter_alone_gives(folder, stack, layout):
    backbone, shares = stack
    batch = batch_of(layout)
    shares.give(one_hot(*OF_ROW), batch)
    together = hidden(backbone, batch)
    for task in range(len(TASKS)):
        for row, its in enumerate(hidden(alone(folder, backbone, task), batch)):
            if OF_ROW[row] == task:
                assert (together[row] - its).abs().max() <= CLOSE
            else:
                assert (together[row] - its).abs().max() > 1e-2


@every_layout
def test_gradients_are_those_of_a_loop_over_tasks(folder, stack, layout):
    backbone, shares = stack
    batch = batch_of(layout)
    shares.give(one_hot(*OF_ROW), batch)
    torch.manual_seed(3)
    weights = [torch.randn(length, backbone.width) for length in LENGTHS]
    sum((w * h).sum() for w, h in zip(weights, hidden(backbone, batch), strict=True)).backward()
    for task in range(len(TASKS)):
        single = alone(folder, backbone, task)
        rows = [row for row, of in enumerate(OF_ROW) if of == task]
        out = hidden(single, batch)
        sum((weights[row] * out[row]).sum() for row in rows).backward()
        own = slice(3 * task, 3 * task + 3)
        for name, layer in adapted(single).items():
            stacked = adapted(backbone)[name]
            for expected, found in (
                (layer.lora_A.grad, stacked.lora_A.grad[own]),
                (layer.lora_B.grad, stacked.lora_B.grad[:, own]),
            ):
                assert (expected - found).abs().max() <= 1e-4 * expected.abs().max() + 1e-6


def test_a_task_without_rows_gets_no_gradient_at_all(stack):
    backbone, shares = stack
    batch = batch_of("padded")
    shares.give(one_hot(0, 0, 1, 0, 1, 1), batch)
    backbone(batch).sum().backward()
    for layer in adapted(backbone).values():
        assert not layer.lora_A.grad[6:].any()
        assert not layer.lora_B.grad[:, 6:].any()
        assert layer.lora_B.grad[:, :6].any()
        assert layer.weight.grad is None


def test_shares_between_tasks_have_a_gradient(stack):
    backbone, shares = stack
    batch = batch_of("flat")
    logits = torch.randn(len(LENGTHS), len(TASKS), requires_grad=True)
    shares.give(logits.softmax(1), batch)
    backbone(batch).square().sum().backward()
    assert logits.grad.abs().amin() > 0


def test_without_shares_it_is_the_frozen_model(folder, stack):
    backbone, shares = stack
    batch = batch_of("padded")
    shares.give(None, batch)
    assert torch.equal(backbone(batch), loaded(folder)(batch))


def test_at_first_no_task_changes_anything(folder):
    backbone = loaded(folder)
    shares = attach_stack(backbone.model, CONFIG, TASKS)
    batch = batch_of("padded")
    shares.give(one_hot(*OF_ROW), batch)
    for one, other in zip(hidden(backbone, batch), hidden(loaded(folder), batch), strict=True):
        assert (one - other).abs().max() <= CLOSE


def test_a_new_task_changes_no_other_tasks_beginning(folder):
    few, many = loaded(folder), loaded(folder)
    attach_stack(few.model, CONFIG, TASKS[:2])
    attach_stack(many.model, CONFIG, TASKS)
    for name, layer in adapted(few).items():
        assert torch.equal(layer.lora_A, adapted(many)[name].lora_A[:6])
        assert not torch.equal(layer.lora_A[:3], layer.lora_A[3:])


def test_dropout_and_autocast_leave_the_shares_exact(folder):
    backbone = loaded(folder)
    config = AdapterConfig(rank=3, dropout=0.5, seed=7)
    shares = attach_stack(backbone.model, config, TASKS)
    backbone.train()
    batch = batch_of("padded")
    shares.give(one_hot(0, 0, 1, 0, 1, 1), batch)
    with torch.autocast("cpu", torch.bfloat16):
        backbone(batch).float().sum().backward()
    for layer in adapted(backbone).values():
        assert not layer.lora_B.grad[:, 6:].any()
        assert layer.lora_B.grad[:, :6].isfinite().all()


def test_each_task_is_a_folder_that_peft_loads(folder, stack, tmp_path):
    import json

    import peft
    import transformers

    backbone, shares = stack
    batch = batch_of("padded")
    for task, name in enumerate(TASKS):
        state = adapter_state(backbone.model, of=methodcaller("of_task", task))
        where = tmp_path / name
        where.mkdir()
        (where / "adapter_config.json").write_text(json.dumps(state.config))
        tensors = {key: value.contiguous() for key, value in state.tensors.items()}
        save_file(tensors, where / "adapter_model.safetensors")
        own = loaded(folder)
        attach(own.model, CONFIG)
        for layer_name, layer in adapted(own.model).items():
            for key, parameter in layer.trained().items():
                parameter.detach().copy_(tensors.pop(f"base_model.model.{layer_name}.{key}"))
        assert not tensors
        shares.give(one_hot(*[task] * len(LENGTHS)), batch)
        expected = hidden(backbone, batch)
        for one, other in zip(expected, hidden(own, batch), strict=True):
            assert (one - other).abs().max() <= CLOSE
        config = transformers.AutoConfig.from_pretrained(folder)
        base = transformers.AutoModel.from_config(config, dtype=torch.float32)
        plain = {k: v for k, v in backbone.model.state_dict().items() if "lora_" not in k}
        base.load_state_dict(plain, strict=False)
        theirs = peft.PeftModel.from_pretrained(base, where).eval()
        with torch.no_grad():
            out = theirs(
                input_ids=batch["input_ids"], attention_mask=batch["attention_mask"].long()
            ).last_hidden_state
        for row, length in enumerate(LENGTHS):
            assert (out[row, :length] - expected[row]).abs().max() <= CLOSE


def test_a_copy_has_shares_of_its_own(stack):
    backbone, shares = stack
    shares.give(torch.ones(1, 3, requires_grad=True) * 2, {"input_ids": torch.zeros(1, 4)})
    layers = [*adapted(copy.deepcopy(backbone.model)).values()]
    assert len({id(layer.shares) for layer in layers}) == 1
    assert layers[0].shares is not shares


def test_what_cannot_be_is_refused(folder, stack):
    backbone, shares = stack
    with pytest.raises(ConfigError, match="has adapters already"):
        attach_stack(backbone.model, CONFIG, TASKS)
    with pytest.raises(ConfigError, match="cannot be merged"):
        merged_state(backbone.model)
    with pytest.raises(ValueError, match="6 documents and 3 tasks"):
        shares.give(one_hot(0, 1), batch_of("padded"))
    for tasks in ((), ("a", "a")):
        with pytest.raises(ConfigError, match="tasks"):
            attach_stack(loaded(folder).model, CONFIG, tasks)
    with pytest.raises(ConfigError, match="of the kind lora"):
        attach_stack(loaded(folder).model, AdapterConfig(kind="dora"), TASKS)
    assert all(isinstance(layer, StackedLora) for layer in adapted(backbone).values())


def looked(backbone, shares, of_row, *, blocked=None):
    """Return what is dead after three windows of rows of these tasks."""
    watched, batch = Gradients(backbone.model), batch_of("padded")
    for _ in range(3):
        shares.give(one_hot(*of_row), batch)
        hidden = backbone(batch)
        hidden.square().mean().backward()
        for layer in adapted(backbone).values() if blocked is not None else ():
            layer.lora_A.grad[blocked * 3 : blocked * 3 + 3] = 0
        watched.look()
        backbone.model.zero_grad()
    return watched.dead()


def test_the_adapter_of_each_task_must_get_a_gradient(stack):
    backbone, shares = stack
    assert not looked(backbone, shares, OF_ROW)
    dead = looked(backbone, shares, OF_ROW, blocked=2)
    assert len(dead) == len(adapted(backbone))
    assert all(name.endswith("lora_A of code") for name in dead)


def test_a_task_without_rows_so_far_is_not_judged(stack):
    backbone, shares = stack
    assert not looked(backbone, shares, (0, 1, 1, 0, 0, 1))


def test_a_late_task_is_looked_at_later(stack):
    assert Gradients(stack[0].model).later == (10, 50)
    assert Gradients(torch.nn.Linear(2, 2)).later == ()
