"""Folders of adapters go to PEFT and come from it with equal outputs; odd ones are refused."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.golden.adapting import NAMES, QUIET, logits, stirred, tiny, written

from hotloop.core.errors import CheckpointError, ConfigError, DataError
from hotloop.models.adapters.attach import adapted, attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.peft_files import CONFIG, TENSORS, adapter_state, load_adapter

pytestmark = pytest.mark.filterwarnings(QUIET)
HEAD = {"roberta": ("classifier",)}
TARGETS = {"roberta": ("query", "output.dense")}
CLOSE = 2e-6
every_model = pytest.mark.parametrize("name", NAMES)
every_kind = pytest.mark.parametrize("kind", ["lora", "dora", "ia3"])


def ours(name="qwen3", kind="lora", seed=0, **values):
    model = tiny(name, seed)
    saved = HEAD.get(name, ())
    attach(model, AdapterConfig(kind=kind, rank=4, alpha=6.0, modules_to_save=saved, **values))
    return stirred(model)


def largest(model):
    return max(1.0, logits(model).abs().max().item())


@every_kind
@every_model
@pytest.mark.parametrize("targets", ["ends", "all-linear", "regex"])
def test_peft_loads_what_is_written(tmp_path, name, kind, targets):
    import peft

    ends = TARGETS.get(name, ("q_proj", "down_proj"))
    chosen = {"ends": ends, "all-linear": "all-linear", "regex": rf".*({'|'.join(ends)})"}[targets]
    model = ours(name, kind, targets=chosen)
    theirs = peft.PeftModel.from_pretrained(tiny(name), written(model, tmp_path)).eval()
    assert (logits(theirs) - logits(model)).abs().max() <= CLOSE * largest(model)
    assert (logits(theirs) - logits(tiny(name))).abs().max() > 1e-2


@pytest.mark.parametrize("task", ["CAUSAL_LM", "SEQ_CLS"])
def test_peft_loads_it_for_its_task(tmp_path, task):
    import peft

    name = "qwen3" if task == "CAUSAL_LM" else "roberta"
    model = ours(name, "dora", rslora=True)
    folder = written(model, tmp_path, task=task, base="some/model")
    assert json.loads((folder / CONFIG).read_text())["base_model_name_or_path"] == "some/model"
    theirs = peft.PeftModel.from_pretrained(tiny(name), folder).eval()
    assert (logits(theirs) - logits(model)).abs().max() <= CLOSE * largest(model)


def pefts(name, kind, folder, **values):
    """Return a model with PEFT's adapters, moved from where they begin, and written by PEFT."""
    import peft

    about = {"target_modules": list(TARGETS.get(name, ("q_proj", "down_proj"))), **values}
    about["modules_to_save"] = list(HEAD.get(name, ())) or None
    if kind == "ia3":
        made = peft.IA3Config(feedforward_modules=list(about["target_modules"][1:]), **about)
    else:
        made = peft.LoraConfig(r=3, lora_alpha=5, use_dora=kind == "dora", **about)
    model = stirred(peft.get_peft_model(tiny(name), made)).eval()
    model.save_pretrained(folder)
    return model


@every_kind
@every_model
def test_what_peft_writes_is_loaded(tmp_path, name, kind):
    theirs = pefts(name, kind, tmp_path)
    model = tiny(name)
    config = load_adapter(model, tmp_path)
    assert config.kind == kind
    assert (logits(model) - logits(theirs)).abs().max() <= CLOSE * largest(model)
    assert {n for n, p in model.named_parameters() if p.requires_grad} >= {
        f"{name}.{key.removesuffix('.weight')}"
        for name, it in adapted(model).items()
        for key in it.trained()
    }


@pytest.mark.parametrize(
    "values",
    [
        {"target_modules": "all-linear"},
        {"target_modules": r".*\.1\..*q_proj"},
        {"target_modules": ["q_proj", "not_in_this_model"]},
        {"use_rslora": True},
        {"init_lora_weights": "gaussian"},
        {"lora_dropout": 0.5},
    ],
    ids=str,
)
def test_what_peft_can_say_is_understood(tmp_path, values):
    theirs = pefts("qwen3", "lora", tmp_path, **values)
    model = tiny("qwen3")
    config = load_adapter(model, tmp_path)
    assert (logits(model) - logits(theirs)).abs().max() <= CLOSE * largest(model)
    assert config.dropout == values.get("lora_dropout", 0.0)


@every_kind
def test_what_is_written_is_read_back_bit_for_bit(tmp_path, kind):
    model = ours("roberta", kind)
    other = tiny("roberta")
    load_adapter(other, written(model, tmp_path))
    assert torch.equal(logits(other), logits(model))


def test_values_are_loaded_into_adapters_that_are_there(tmp_path):
    model, other = ours(), ours(seed=1)
    other.load_state_dict(tiny("qwen3").state_dict(), strict=False)
    layer = adapted(other)["model.layers.0.mlp.up_proj"]
    load_adapter(other, written(model, tmp_path))
    assert adapted(other)["model.layers.0.mlp.up_proj"] is layer
    assert torch.equal(logits(other), logits(model))


@pytest.mark.parametrize("values", [{"kind": "dora"}, {"rank": 5}, {"alpha": 7.0}])
def test_other_adapters_than_those_that_are_there_are_refused(tmp_path, values):
    model = tiny("qwen3")
    attach(model, AdapterConfig(**{"rank": 4, "alpha": 6.0, **values}))
    with pytest.raises(ConfigError, match="the model's adapters have"):
        load_adapter(model, written(ours(), tmp_path))


def test_adapters_in_half_precision_become_fp32(tmp_path):
    written(ours(), tmp_path)
    halves = {k: v.bfloat16() for k, v in load_file(tmp_path / TENSORS).items()}
    save_file(halves, tmp_path / TENSORS)
    model = tiny("qwen3")
    load_adapter(model, tmp_path)
    assert {v.dtype for it in adapted(model).values() for v in it.trained().values()} == {
        torch.float32
    }


def changed(folder, **keys):
    raw = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**raw, **keys}))
    return folder


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"peft_type": "VERA"}, "LORA or IA3, not 'VERA'"),
        ({"peft_type": None}, "LORA or IA3, not None"),
        ({"use_dorra": True}, "use_dorra=True is unknown here .*did you mean use_dora"),
        ({"lora_bias": True}, "lora_bias=True"),
        ({"bias": "all"}, "only adapters without biases"),
        ({"fan_in_fan_out": True}, "fan_in_fan_out=True"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights='pissa'"),
        ({"rank_pattern": {"q_proj": 9}}, "rank_pattern"),
        ({"layers_to_transform": 0}, "layers_to_transform=0"),
        ({"r": 0}, "1 or more, not 0"),
        ({"r": True}, "r is a int, not True"),
        ({"r": "4"}, "r is a int, not '4'"),
        ({"lora_alpha": "6"}, "lora_alpha is a float"),
        ({"use_dora": 1}, "use_dora is a bool, not 1"),
        ({"lora_dropout": 2.0}, "below 1, not 2.0"),
        ({"target_modules": 5}, "target_modules is a list of names, not 5"),
        ({"target_modules": ["q_proj", 5]}, "is a list of names"),
        ({"target_modules": ["nothing"]}, "none of target_modules .nothing. is a linear layer"),
        ({"target_modules": None}, "none of target_modules"),
        ({"modules_to_save": "norm"}, "modules_to_save is a list of names"),
    ],
    ids=str,
)
def test_a_configuration_that_cannot_be_followed_is_refused(tmp_path, keys, says):
    model = tiny("qwen3")
    with pytest.raises(ConfigError, match=says):
        load_adapter(model, changed(written(ours(), tmp_path), **keys))
    assert not adapted(model)


def test_keys_of_a_newer_peft_that_ask_for_nothing_are_let_be(tmp_path):
    folder = changed(written(ours(), tmp_path), of_tomorrow=None, too=False, three={}, four=[])
    assert load_adapter(tiny("qwen3"), folder).rank == 4


def with_tensors(folder, change):
    tensors = load_file(folder / TENSORS)
    change(tensors)
    save_file(tensors, folder / TENSORS)
    return folder


A = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.pop(A), rf"lacks {A} \(1 in all\)"),
        (lambda t: t.update(other=torch.ones(2)), r"has other \(1 in all\) too many"),
        (lambda t: t.update({A: torch.ones(5, 32)}), r"is \[5, 32\], not \[4, 32\]"),
        (lambda t: t.update({A: torch.ones(128)}), r"is \[128\], not \[4, 32\]"),
        (lambda t: t[A].fill_(torch.inf), "not finite"),
        (lambda t: t[A][1].fill_(torch.nan), "not finite"),
        (
            lambda t: t.update({"base_model.model.lm_head.weight": torch.ones(61, 32)}),
            "lm_head.weight .* too many",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused_and_nothing_is_changed(tmp_path, change, says):
    model = tiny("qwen3")
    with pytest.raises(CheckpointError, match=says):
        load_adapter(model, with_tensors(written(ours(), tmp_path), change))
    assert not adapted(model)
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("raw", [b"", b"no tensors", b"\xff" * 64, (1 << 40).to_bytes(8, "little")])
def test_a_damaged_file_is_refused(tmp_path, raw):
    (written(ours(), tmp_path) / TENSORS).write_bytes(raw)
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_adapter(tiny("qwen3"), tmp_path)


@pytest.mark.parametrize("raw", [b"", b"[1]", b'{"r": 1, "r": 2}', b'{"r": NaN}', b"\xff"])
def test_a_configuration_that_is_no_json_is_refused(tmp_path, raw):
    (written(ours(), tmp_path) / CONFIG).write_bytes(raw)
    with pytest.raises(DataError):
        load_adapter(tiny("qwen3"), tmp_path)


def test_a_configuration_of_megabytes_is_refused(tmp_path):
    changed(written(ours(), tmp_path), revision="x" * (1 << 20))
    with pytest.raises(ConfigError, match="more than 1,048,576 bytes"):
        load_adapter(tiny("qwen3"), tmp_path)


def test_a_folder_without_files_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=TENSORS):
        load_adapter(tiny("qwen3"), tmp_path)


def test_a_regex_of_a_stranger_is_not_run(tmp_path):
    """This one takes ages on a name that almost matches."""
    folder = changed(written(ours(), tmp_path), target_modules=r"((a|[a-z._0-9]+)+)+!")
    model = tiny("qwen3")
    load_adapter(model, folder)
    assert torch.equal(logits(model), logits(ours()))


def test_the_tensors_are_the_models_own_and_named_by_peft():
    model = ours("roberta", "dora")
    state = adapter_state(model)
    at = "roberta.encoder.layer.0.attention.self.query"
    assert state.tensors[f"base_model.model.{at}.lora_A.weight"].data_ptr() == (
        adapted(model)[at].lora_A.data_ptr()
    )
    assert f"base_model.model.{at}.lora_magnitude_vector" in state.tensors
    assert "base_model.model.classifier.dense.weight" in state.tensors
    assert state.config["modules_to_save"] == ["classifier"]
    json.dumps(state.config)


def test_a_model_without_adapters_has_nothing_to_keep():
    with pytest.raises(ConfigError, match="no adapters to keep"):
        adapter_state(tiny("qwen3"))


def test_a_name_that_peft_would_take_for_more_is_refused():
    model = tiny("qwen3").model
    attach(model, AdapterConfig(targets=("q_proj",), modules_to_save=("embed_tokens",)))
    adapter_state(model)
    other = tiny("qwen3").model
    other.norm.requires_grad_(True)
    attach(other, AdapterConfig(targets=("q_proj",), modules_to_save=("norm",)))
    with pytest.raises(ConfigError, match="cannot say 'norm' in modules_to_save without"):
        adapter_state(other)
