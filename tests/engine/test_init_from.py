import os
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from hotloop.core.errors import ConfigError
from hotloop.engine.init_from import load_weights


class Canary:
    """Its unpickling would leave a mark."""

    def __reduce__(self):
        return (os.mkdir, ("canary-was-run",))


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


def test_pt_files_with_the_usual_nestings_and_prefixes(tmp_path):
    source = model()
    for nest in ("model", "state_dict", None):
        for prefix in ("", "module.", "_orig_mod."):
            tensors = {prefix + k: v for k, v in source.state_dict().items()}
            torch.save({nest: tensors, "step": 3} if nest else tensors, tmp_path / "w.pt")
            target = model()
            assert load_weights(target, tmp_path / "w.pt") == []
            assert torch.equal(target[1].weight, source[1].weight)


def test_differences_are_named(tmp_path):
    tensors = {"0.weight": torch.ones(4, 3), "1.weight": torch.ones(5, 4), "x": torch.ones(1)}
    torch.save(tensors, tmp_path / "w.pt")
    said = load_weights(model(), tmp_path / "w.pt")
    assert said == [
        "1.weight: file has [5, 4], model has [2, 4]; left as initialised",
        "0.bias: not in the file; left as initialised",
        "1.bias: not in the file; left as initialised",
        "x: only in the file; not used",
    ]


def test_nothing_that_fits_is_an_error(tmp_path):
    torch.save({"other": torch.ones(2)}, tmp_path / "w.pt")
    with pytest.raises(ConfigError, match="none of its 1 tensors fits"):
        load_weights(model(), tmp_path / "w.pt")


def test_code_in_a_pickle_never_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"model": Canary()}, tmp_path / "w.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Canary(), protocol=2))
    for name in ("w.pt", "plain.pt"):
        with pytest.raises(ConfigError, match=r"weights only|weights_only"):
            load_weights(model(), tmp_path / name)
    assert not (tmp_path / "canary-was-run").exists()


@pytest.mark.parametrize("name", ["none.safetensors", "none.pt", "folder"])
def test_missing_files_and_foreign_folders(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match=name):
        load_weights(model(), Path(tmp_path / name))
