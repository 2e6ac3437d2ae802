"""Adapters go where they were meant to, change nothing at first, and can be merged."""

import copy
import subprocess
import sys

import pytest
import torch
from tests.golden.adapting import NAMES, QUIET, logits, stirred, tiny
from torch import nn

from hotloop.core.errors import ConfigError
from hotloop.models.adapters.attach import adapted, attach, heads, merged_state
from hotloop.models.adapters.config import AdapterConfig

pytestmark = pytest.mark.filterwarnings(QUIET)
KINDS = ("lora", "dora", "ia3")
every_kind = pytest.mark.parametrize("kind", KINDS)
every_model = pytest.mark.parametrize("name", NAMES)
HEAD = {"roberta": ("classifier",)}


def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4, bias=False))


@every_kind
@every_model
def test_at_first_nothing_is_computed_otherwise(kind, name):
    model = tiny(name)
    before = logits(model)
    assert attach(model, AdapterConfig(kind=kind, modules_to_save=HEAD.get(name, ())))
    assert (logits(model) - before).abs().max() <= 1e-5


@every_kind
@every_model
def test_merged_weights_give_equal_logits(kind, name):
    model = tiny(name)
    config = AdapterConfig(kind=kind, modules_to_save=HEAD.get(name, ()))
    attach(model, config)
    before = logits(model)
    stirred(model)
    moved = logits(model)
    fresh = tiny(name, seed=5)
    fresh.load_state_dict(merged_state(model))
    assert (moved - before).abs().max() > 1e-2
    assert (logits(fresh) - moved).abs().max() <= 2e-5


def test_merging_copies_only_what_adapters_are_on():
    model = plain()
    attach(model, AdapterConfig(targets=("2",)))
    state = merged_state(model)
    assert list(state) == list(plain().state_dict())
    assert state["0.weight"].data_ptr() == model[0].weight.data_ptr()
    assert state["2.weight"].data_ptr() != model[2].weight.data_ptr()
    assert not any(value.requires_grad for value in state.values())


def test_merged_weights_keep_their_dtype():
    model = plain().bfloat16()
    attach(model, AdapterConfig(kind="dora"))
    assert {value.dtype for value in merged_state(model).values()} == {torch.bfloat16}


def test_a_shared_weight_is_not_merged():
    model = tiny("qwen3")
    model.lm_head.weight = model.model.embed_tokens.weight
    attach(model, AdapterConfig(targets=("lm_head",)))
    with pytest.raises(
        ConfigError, match=r"embed_tokens\.weight and lm_head\.weight are one.* lm_head alone"
    ):
        merged_state(model)


@every_model
def test_all_linear_is_every_linear_layer_but_the_head(name):
    model = tiny(name)
    every = {n for n, m in model.named_modules() if isinstance(m, nn.Linear)}
    head = {n for n in every if n.startswith(("lm_head", "classifier"))}
    assert head == set(heads(model))
    assert set(attach(model, AdapterConfig())) == every - head
    assert len(every - head) == (12 if name == "roberta" else 14)


def test_targets_are_ends_of_names():
    model = tiny("qwen3")
    names = attach(model, AdapterConfig(targets=("q_proj", "mlp.up_proj")))
    assert names == [
        f"model.layers.{layer}.{end}"
        for layer in (0, 1)
        for end in ("self_attn.q_proj", "mlp.up_proj")
    ]


def test_a_text_is_a_regex_for_the_whole_name():
    model = tiny("qwen3")
    assert attach(model, AdapterConfig(targets=r".*layers\.1\..*[qk]_proj")) == [
        "model.layers.1.self_attn.q_proj",
        "model.layers.1.self_attn.k_proj",
    ]
    with pytest.raises(ConfigError, match="no linear layer"):
        attach(tiny("qwen3"), AdapterConfig(targets=r"layers\.1\..*q_proj"))


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        (("q_proj", "v_prj"), "'v_prj' is no linear layer .* q_proj, .*did you mean v_proj"),
        (("all_linear",), "did you mean all-linear"),
        (("embed_tokens",), r"model\.embed_tokens is Embedding"),
        (("self_attn",), r"model\.layers\.0\.self_attn is Qwen3Attention"),
    ],
)
def test_a_target_that_is_not_there_is_named(targets, says):
    model = tiny("qwen3")
    with pytest.raises(ConfigError, match=says):
        attach(model, AdapterConfig(targets=targets))
    assert not adapted(model)
    assert all(p.requires_grad for p in model.parameters())


def test_a_module_to_save_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"'clasifier'.*did you mean classifier"):
        attach(tiny("roberta"), AdapterConfig(modules_to_save=("clasifier",)))


def test_the_modules_to_save_learn_whole_and_get_no_adapter():
    model = tiny("roberta")
    names = attach(model, AdapterConfig(targets=("dense",), modules_to_save=("classifier",)))
    assert names
    assert not any(name.startswith("classifier") for name in names)
    free = {n for n, p in model.named_parameters() if p.requires_grad}
    assert {n for n in free if "lora_" not in n} == {
        f"classifier.{end}"
        for end in ("dense.weight", "dense.bias", "out_proj.weight", "out_proj.bias")
    }


def test_adapters_are_put_on_once():
    model = plain()
    attach(model, AdapterConfig())
    with pytest.raises(ConfigError, match="adapters already, the first on 0"):
        attach(model, AdapterConfig())


def test_a_layer_whose_weight_is_used_without_a_call_is_left_alone():
    model = nn.ModuleDict({"attend": nn.MultiheadAttention(8, 2), "out": nn.Linear(8, 8)})
    assert attach(model, AdapterConfig()) == ["out"]
    with pytest.raises(ConfigError, match="NonDynamicallyQuantizableLinear"):
        attach(
            nn.ModuleDict({"attend": nn.MultiheadAttention(8, 2), "out": nn.Linear(8, 8)}),
            AdapterConfig(targets=("out_proj",)),
        )


def test_a_model_that_is_all_head_has_nothing_to_adapt():
    with pytest.raises(ConfigError, match="nothing to adapt"):
        attach(nn.ModuleDict({"lm_head": nn.Linear(4, 4)}), AdapterConfig())


def test_a_layer_stays_where_and_what_it_was():
    model = plain()
    seen = []
    model[0].register_forward_hook(lambda *_: seen.append(1))
    first, weight, names = model[0], model[0].weight, list(model.state_dict())
    attach(model, AdapterConfig())
    model(torch.ones(1, 8))
    assert model[0] is first
    assert model[0].weight is weight
    assert seen == [1]
    assert [name for name in model.state_dict() if "lora_" not in name] == names


def test_a_layer_used_twice_gets_one_adapter():
    model = plain()
    model.append(model[0])
    assert attach(model, AdapterConfig()) == ["0", "2"]
    assert model[3] is model[0]
    state = merged_state(stirred(model))
    assert list(state) == [*plain().state_dict(), "3.weight", "3.bias"]
    assert torch.equal(state["3.weight"], state["0.weight"])


def test_what_a_layer_begins_with_depends_on_its_name_and_the_seed_alone():
    def begun(seed=0, **more):
        model = nn.ModuleDict({**more, "a": nn.Linear(6, 5), "b": nn.Linear(6, 5)})
        torch.manual_seed(len(more))
        attach(model, AdapterConfig(rank=4, seed=seed))
        return {name: layer.lora_A.detach() for name, layer in adapted(model).items()}

    one, other = begun(), begun(first=nn.Linear(6, 5))
    assert torch.equal(one["a"], other["a"])
    assert torch.equal(one["b"], other["b"])
    assert not torch.equal(one["a"], one["b"])
    assert not torch.equal(one["a"], begun(seed=1)["a"])


def test_attaching_draws_nothing_from_the_global_stream():
    model = plain()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    attach(model, AdapterConfig(kind="dora"))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_copy_of_a_model_has_its_own_adapters():
    model = plain()
    attach(model, AdapterConfig(kind="dora"))
    other = stirred(copy.deepcopy(model))
    x = torch.ones(2, 8)
    assert not torch.equal(model(x), other(x))
    assert torch.equal(model[0].lora_B, torch.zeros_like(model[0].lora_B))


def test_nothing_heavy_is_imported():
    code = (
        "import sys\n"
        "import hotloop.models.adapters.peft_files, hotloop.models.trainable_parameters\n"
        "heavy = {'transformers', 'peft', 'bitsandbytes'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
