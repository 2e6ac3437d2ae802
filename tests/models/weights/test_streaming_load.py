"""Weights get from files into models: all of them, only theirs, and without a second copy."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.golden.tiny_models import CONFIGS, isolation, loaded, saved, written

from hotloop.core.errors import DataError
from hotloop.models.backbone import load_backbone
from hotloop.models.weights.discovery import find_model

HEADS = {"qwen3": 0, "gemma3": 0, "llama": 1}  # tied or a matrix of its own


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {name: saved(root / name, name) for name in CONFIGS}


def theirs(folder, *, head=False):
    import transformers

    transformers.utils.logging.set_verbosity_error()
    auto = transformers.AutoModelForCausalLM if head else transformers.AutoModel
    return auto.from_pretrained(folder, dtype=torch.float32)


def state(model):
    return {n: t for n, t in model.state_dict().items() if "pooler" not in n}


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


@pytest.mark.parametrize("name", CONFIGS)
def test_a_base_model_is_filled_as_transformers_fills_it(folders, name):
    assert_equal(state(loaded(folders[name]).model), state(theirs(folders[name])))


@pytest.mark.parametrize("name", HEADS)
def test_a_whole_model_is_filled_as_transformers_fills_it(folders, name):
    model = loaded(folders[name], head=True).model
    assert_equal(state(model), state(theirs(folders[name], head=True)))
    matrices = {p.data_ptr() for p in model.parameters() if p.shape[0] == 61}
    assert len(matrices) == 1 + HEADS[name]


def test_a_whole_model_is_filled_from_a_base_model_where_its_head_is_tied(folders, tmp_path):
    theirs(folders["qwen3"]).save_pretrained(tmp_path)
    written(tmp_path, "qwen3")
    assert "embed_tokens.weight" in find_model(str(tmp_path)).tensors
    whole, base = loaded(folders["qwen3"], head=True), loaded(tmp_path, head=True)
    assert_equal(state(whole.model), state(base.model))


def test_shards_and_names_of_2018_are_read(folders, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(folders["bert"], old)
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in load_file(old / "model.safetensors").items()
    }
    save_file(tensors, old / "model.safetensors")
    assert any("gamma" in name for name in tensors)
    assert_equal(state(loaded(old).model), state(loaded(folders["bert"]).model))
    shards = saved(tmp_path / "shards", "llama", shards="20KB")
    assert_equal(state(loaded(shards).model), state(loaded(folders["llama"]).model))


def test_a_pickle_is_read_without_its_code(folders, tmp_path):
    written(tmp_path, "bert")
    torch.save(load_file(folders["bert"] / "model.safetensors"), tmp_path / "pytorch_model.bin")
    assert_equal(state(loaded(tmp_path).model), state(loaded(folders["bert"]).model))

    class Canary:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    for held in (Canary(), {"a": Canary()}):
        torch.save(held, tmp_path / "pytorch_model.bin")
        with pytest.raises(DataError, match="holds more than named tensors; hotloop runs no code"):
            loaded(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([1], "holds more than named tensors"),
        ({"a": {"b": 1}}, "holds more than named tensors"),
        (b"broken", "pytorch_model.bin"),
    ],
)
def test_a_pickle_of_something_else_is_refused(tmp_path, content, said):
    written(tmp_path, "bert")
    if isinstance(content, bytes):
        (tmp_path / "pytorch_model.bin").write_bytes(content)
    else:
        torch.save(content, tmp_path / "pytorch_model.bin")
    with pytest.raises(DataError, match=said):
        loaded(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"a": 1})[:-3])
    with pytest.raises(DataError):
        loaded(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_weights_are_converted(folders, tmp_path, dtype):
    half = tmp_path / "half"
    shutil.copytree(folders["qwen3"], half)
    tensors = {n: t.bfloat16() for n, t in load_file(half / "model.safetensors").items()}
    save_file(tensors, half / "model.safetensors")
    model = loaded(half, dtype=dtype).model
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert torch.equal(model.embed_tokens.weight, tensors["model.embed_tokens.weight"].to(dtype))


def test_without_a_head_its_weights_are_not_read(tmp_path):
    """The shard with the head alone is cut off in its data: only what reads the head can tell."""
    folder = saved(tmp_path / "model", "llama")
    tensors = load_file(folder / "model.safetensors")
    save_file({"lm_head.weight": tensors.pop("lm_head.weight")}, folder / "head.safetensors")
    save_file(tensors, folder / "rest.safetensors")
    (folder / "model.safetensors").unlink()
    names = {**dict.fromkeys(tensors, "rest.safetensors"), "lm_head.weight": "head.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    found = find_model(str(folder))
    whole = state(loaded(folder).model)
    head = folder / "head.safetensors"
    os.truncate(head, head.stat().st_size - 4)
    assert_equal(whole, state(load_backbone(found, head=False, isolation=isolation()).model))
    with pytest.raises(DataError, match=r"head.safetensors became shorter while it was read"):
        load_backbone(found, head=True, isolation=isolation())


@pytest.mark.parametrize("name", CONFIGS)
def test_without_a_head_nothing_but_the_embedding_has_the_size_of_the_vocabulary(folders, name):
    model = loaded(folders[name]).model
    sized = [n for n, t in [*model.named_parameters(), *model.named_buffers()] if 61 in t.shape]
    assert len(sized) == 1
    assert sized[0].endswith(("embed_tokens.weight", "word_embeddings.weight"))
    assert "pooler" not in str(model)  # its weights would never learn


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.pop("model.norm.weight"), "lacks norm.weight: its files are not of its conf"),
        (
            lambda t: [t.pop(n) for n in list(t) if "q_proj" in n or "k_proj" in n],
            r"lacks layers.0.self_attn.q_proj.weight, .* and 2 more tensors",
        ),
        (
            lambda t: t.update({"model.norm.weight": torch.zeros(31)}),
            r"model.norm.weight has the shape \[31\], its config makes it \[32\]",
        ),
        (
            lambda t: t.update({"model.layers.7.input_layernorm.weight": torch.zeros(32)}),
            "holds model.layers.7.input_layernorm.weight, which its config has no layer for",
        ),
    ],
)
def test_weights_of_another_config_are_refused(folders, tmp_path, change, said):
    folder = tmp_path / "model"
    shutil.copytree(folders["qwen3"], folder)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(DataError, match=said):
        loaded(folder)


def test_a_head_that_is_not_there_is_said(folders, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(folders["qwen3"], folder)
    written(folder, "qwen3", tie_word_embeddings=False)
    with pytest.raises(DataError, match=r"lacks lm_head.weight"):
        loaded(folder, head=True)


def test_what_happens_to_the_file_later_changes_no_weight(tmp_path):
    folder = saved(tmp_path, "qwen3")
    model = loaded(folder).model
    before = {name: tensor.clone() for name, tensor in state(model).items()}
    path = folder / "model.safetensors"
    with path.open("r+b") as stream:
        stream.seek(-1000, os.SEEK_END)
        stream.write(b"\xff" * 1000)
    assert_equal(before, state(model))


def test_a_file_that_is_gone_since_is_said(folders):
    found = find_model(str(folders["llama"]))
    gone = {n: replace(t, path=t.path.with_name("gone")) for n, t in found.tensors.items()}
    with pytest.raises(DataError, match=r"cannot read .*gone: No such file"):
        load_backbone(replace(found, tensors=gone), head=False, isolation=isolation())


@pytest.mark.slow
def test_there_is_no_second_copy_of_the_weights(tmp_path):
    """256 MiB, nearly all in one tensor: what the process grows by at its peak is the model."""
    written(tmp_path, "llama", vocab_size=1 << 16, hidden_size=1024, num_hidden_layers=1)
    code = f"""
import psutil, sys, torch
from pathlib import Path
from tests.golden.tiny_models import isolation
from hotloop.models.backbone import load_backbone
from hotloop.models.weights.discovery import find_model
from safetensors.torch import save_file
folder = Path({str(tmp_path)!r})
if not (folder / "model.safetensors").exists():
    found = find_model(str(folder), weights=False)
    made = load_backbone(found, head=False, isolation=isolation(), weights=False)
    save_file(dict(made.model.state_dict()), folder / "model.safetensors")
    sys.exit()
import transformers.models.llama.modeling_llama
found = find_model(str(folder))
before = psutil.Process().memory_info().rss
model = load_backbone(found, head=False, isolation=isolation())
# Of this program alone: ru_maxrss begins at what the parent held when it made this process.
line = next(each for each in Path("/proc/self/status").open() if each.startswith("VmHWM"))
peak = int(line.split()[1]) * 1024
print((peak - before) / sum(p.nbytes for p in model.parameters()))
"""
    run = [sys.executable, "-c", code]
    subprocess.run(run, check=True, timeout=120, cwd=os.getcwd())
    done = subprocess.run(run, check=True, timeout=120, capture_output=True, text=True)
    assert 0.9 < float(done.stdout) < 1.15
