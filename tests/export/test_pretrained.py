"""hotloop export: what it writes, other programs load, and it computes what the run does."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden import tiny_models, tiny_tokenizer
from torch import nn

from hotloop.api import load_run
from hotloop.cli.main import main
from hotloop.core.errors import CheckpointError, UsageError
from hotloop.export.pretrained import HEAD
from hotloop.jobs import train
from hotloop.jobs.request import fresh_request
from hotloop.models.pooling import Pooling

CHAT = [{"question": f"the quick fox {at}", "answer": "jumps over"} for at in range(24)]
PAIRS = [{"text": f"a lazy dog {at}", "label": "odd" if at % 2 else "even"} for at in range(24)]
SHORT = [
    "training.epochs=null",
    "training.max_steps=3",
    "training.batch_size=8",
    "training.learning_rate=0.01",
    "data.validation_share=0.3",
    "data.max_length=48",
]
IDS = torch.arange(12).view(2, 6) * 5 + 1


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Return what makes the folder of a tiny model with a tokenizer."""

    def make(name, **more):
        folder = tmp_path_factory.mktemp(name)
        tiny_tokenizer.save(folder)
        return tiny_models.saved(folder, name, vocab_size=400, num_hidden_layers=2, **more)

    return make


def trained(out, recipe, folder, rows, *more):
    data = jsonl(out.parent / f"{out.name}.jsonl", rows)
    keys = [f"model.name={folder}", f"data.path={data}", *SHORT, *more]
    train.train(fresh_request(recipe, keys), out=out)
    return load_run(out)


def said(run, batch):
    model = run.model("best")
    with torch.no_grad():
        return model.logits(batch) if hasattr(model, "logits") else model(batch)


@pytest.mark.parametrize(
    ("name", "form", "more"),
    [
        ("qwen3", "hf", ("adapter.method=none",)),
        ("gemma3", "hf", ("adapter.method=none",)),
        ("qwen3", "merged", ("adapter.method=lora",)),
        ("gemma3", "merged", ("adapter.method=dora",)),
        ("qwen3", "merged", ("adapter.method=ia3",)),
    ],
)
def test_transformers_loads_a_language_model(base, tmp_path, capsys, name, form, more):
    from transformers import AutoModelForCausalLM

    run = trained(tmp_path / "run", "chat-sft", base(name), CHAT, *more)
    assert main(["export", str(run.path), "--to", form, "--out", str(tmp_path / "out")]) == 0
    assert "loaded by transformers" in capsys.readouterr().out
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        logits = theirs(input_ids=IDS).logits
    assert torch.allclose(said(run, {"input_ids": IDS}), logits, atol=1e-5)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        kept = Path(run.config.model.name, file).read_bytes()
        assert (tmp_path / "out" / file).read_bytes() == kept
    untrained = AutoModelForCausalLM.from_pretrained(run.config.model.name, dtype="float32").eval()
    with torch.no_grad():
        assert not torch.allclose(untrained(input_ids=IDS).logits, logits, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated")  # by PEFT 0.21
@pytest.mark.parametrize("method", ["lora", "dora", "ia3"])
def test_peft_loads_an_adapter(base, tmp_path, method):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    folder = base("qwen3")
    run = trained(tmp_path / "run", "expert-sft", folder, CHAT, f"adapter.method={method}")
    done = run.export("peft", tmp_path / "out")
    assert done.reader.startswith("PEFT")
    assert done.apart < 1e-5
    frozen = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    theirs = PeftModel.from_pretrained(frozen, tmp_path / "out").eval()
    with torch.no_grad():
        logits = theirs(input_ids=IDS).logits
        assert torch.allclose(said(run, {"input_ids": IDS}), logits, atol=1e-5)
        with theirs.disable_adapter():
            assert not torch.allclose(theirs(input_ids=IDS).logits, logits, atol=1e-4)


@pytest.mark.parametrize("form", ["peft", "merged"])
def test_an_adapter_on_four_bits_is_exported(base, tmp_path, form):
    pytest.importorskip("bitsandbytes")
    folder = base("qwen3", hidden_size=64, intermediate_size=128, head_dim=16)
    more = ("adapter.quantization=nf4", "adapter.rank=4")
    run = trained(tmp_path / "run", "expert-sft", folder, CHAT, *more)
    assert run.export(form, tmp_path / "out").apart < 0.05


@pytest.mark.parametrize(
    ("name", "form", "more"),
    [
        ("bert", "hf", ()),
        ("qwen3", "hf", ("model.bidirectional=true", "model.pooling=attention")),
        ("gemma3", "peft", ("adapter.method=lora", "model.bidirectional=true")),
    ],
)
def test_a_classifiers_head_is_beside_its_backbone(base, tmp_path, name, form, more):
    run = trained(tmp_path / "run", "pair-classifier", base(name), PAIRS, *more)
    run.export(form, tmp_path / "out")
    about = json.loads((tmp_path / "out/classifier.json").read_text())
    assert about["classes"] == ["even", "odd"]
    tensors = load_file(tmp_path / "out" / HEAD)
    if form == "peft":
        assert {"head.0.weight", "head.0.bias"} <= tensors.keys()
        return
    from transformers import AutoModel

    theirs = AutoModel.from_pretrained(tmp_path / "out").eval()
    pooling = Pooling(about["pooling"]["kind"], width=theirs.config.hidden_size)
    head = nn.Sequential(nn.Linear(theirs.config.hidden_size, 2))
    for part, module in (("pooling.", pooling), ("head.", head)):
        module.load_state_dict(
            {n.removeprefix(part): t for n, t in tensors.items() if n.startswith(part)}
        )
    with torch.no_grad():
        logits = head(pooling(theirs(input_ids=IDS).last_hidden_state, {}))
    assert torch.allclose(said(run, {"input_ids": IDS}), logits, atol=1e-5)


def test_what_a_run_has_no_form_for_is_said(base, tmp_path, tiny, capsys):
    run = trained(tmp_path / "run", "chat-sft", base("qwen3"), CHAT)
    with pytest.raises(UsageError, match="--to merged"):
        run.export("hf", tmp_path / "out")
    with pytest.raises(UsageError, match="not 'onnx'"):
        run.export("onnx", tmp_path / "out")
    (tmp_path / "there").mkdir()
    with pytest.raises(UsageError, match="exists"):
        run.export("peft", tmp_path / "there")
    assert not (tmp_path / "out").exists()
    train.train(fresh_request("char-lm", tiny), out=tmp_path / "chars")
    assert main(["export", str(tmp_path / "chars"), "--to", "hf"]) == 2
    assert "no other program has it" in capsys.readouterr().err


def test_a_folder_that_computes_something_else_is_not_left(base, tmp_path, monkeypatch):
    from hotloop.export import pretrained

    run = trained(tmp_path / "run", "chat-sft", base("qwen3"), CHAT)
    plain = pretrained.merged_state

    def wrong(model):
        return {name: tensor * 1.1 for name, tensor in plain(model).items()}

    monkeypatch.setattr(pretrained, "merged_state", wrong)
    with pytest.raises(CheckpointError, match="computes something else"):
        run.export("merged", tmp_path / "out")
    assert not (tmp_path / "out").exists()
