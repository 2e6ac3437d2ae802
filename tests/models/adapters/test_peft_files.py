"""PEFT loads the folders of adapters with equal outputs."""

import json

import pytest
from tests.golden.adapting import NAMES, QUIET, logits, stirred, tiny, written

from hotloop.core.errors import ConfigError
from hotloop.models.adapters.attach import adapted, attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.peft_files import CONFIG, adapter_state

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
