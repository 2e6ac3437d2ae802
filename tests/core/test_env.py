import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotloop.core import env
from hotloop.core.env import ENV, Environment
from hotloop.core.errors import ConfigError

SHARED = Path.home() / ".cache" / "huggingface"


def test_what_an_empty_environment_means():
    found = Environment.read({})
    assert found == Environment(
        cache=Path.home() / ".cache" / "hotloop",
        hub=SHARED / "hub",
        datasets=SHARED / "datasets",
        no_color=False,
        rank=0,
        world=1,
    )


def test_an_empty_value_counts_as_absent():
    names = ["HOTLOOP_CACHE", "XDG_CACHE_HOME", "NO_COLOR", "RANK", "WORLD_SIZE"]
    names += ["HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE"]
    assert Environment.read(dict.fromkeys(names, "")) == Environment.read({})


@pytest.mark.parametrize(
    ("values", "cache"),
    [
        ({"HOTLOOP_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/hotloop")),
        ({"XDG_CACHE_HOME": "b"}, Path.home() / ".cache" / "hotloop"),  # relative: to be ignored
        ({"HOTLOOP_CACHE": "a"}, Path.cwd() / "a"),  # wherever one is later
        ({"HOTLOOP_CACHE": "~/a b"}, Path.home() / "a b"),
    ],
)
def test_where_the_cache_is(values, cache):
    found = Environment.read(values).cache
    assert found == cache
    assert found.is_absolute()


@pytest.mark.parametrize(
    ("values", "hub", "datasets"),
    [
        ({"XDG_CACHE_HOME": "/b"}, "/b/huggingface/hub", "/b/huggingface/datasets"),
        ({"XDG_CACHE_HOME": "/b", "HF_HOME": "/c"}, "/c/hub", "/c/datasets"),
        ({"HF_HOME": "/c", "HF_DATASETS_CACHE": "/d"}, "/c/hub", "/d"),
        ({"HF_HUB_CACHE": "/e", "HUGGINGFACE_HUB_CACHE": "/f"}, "/e", f"{SHARED}/datasets"),
        ({"HUGGINGFACE_HUB_CACHE": "/f", "HF_HOME": "/c"}, "/f", "/c/datasets"),
        ({"HF_HOME": "${DISK}/h$", "DISK": "/g"}, "/g/h$/hub", "/g/h$/datasets"),
        ({"HF_HOME": "/$NOT_SET"}, "/$NOT_SET/hub", "/$NOT_SET/datasets"),
    ],
)
def test_where_hugging_face_keeps_things(values, hub, datasets):
    found = Environment.read(values)
    assert (found.hub, found.datasets) == (Path(hub), Path(datasets))


@pytest.mark.parametrize("values", [{"HF_HOME": "$TMP/a"}, {"HF_HUB_CACHE": "~/b"}])
def test_hugging_faces_own_library_agrees(values, tmp_path):
    codes = (
        "from huggingface_hub.constants import HF_HUB_CACHE; print(HF_HUB_CACHE)",
        "from hotloop.core.env import ENV; print(ENV.hub)",
    )
    values = {"HOME": str(tmp_path), "TMP": "/t", **values}
    theirs, ours = (
        subprocess.check_output([sys.executable, "-c", code], env=values, text=True)
        for code in codes
    )
    assert ours == theirs


def test_the_compile_cache_is_where_torch_keeps_it(monkeypatch, tmp_path):
    from torch._inductor.runtime import cache_dir_utils

    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    assert str(env.compile_cache()) == cache_dir_utils.default_cache_dir()
    monkeypatch.setenv("LOGNAME", "domain\\me")
    assert str(env.compile_cache()) == cache_dir_utils.default_cache_dir()
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    assert env.compile_cache() == tmp_path


def test_a_cache_without_a_home_says_what_to_set():
    with pytest.raises(ConfigError, match="Set HOTLOOP_CACHE to a folder"):
        Environment.read({"HOTLOOP_CACHE": "~no-such-user-anywhere/x"})


def test_the_cluster_is_the_one_of_rays_own_commands():
    assert Environment.read({"RAY_ADDRESS": "head:6379"}).ray == "head:6379"
    assert Environment.read({"RAY_ADDRESS": ""}).ray is None


@pytest.mark.parametrize("value", ["0", "1", "false"])
def test_no_color_counts_with_any_value(value):
    assert Environment.read({"NO_COLOR": value}).no_color


def test_ranks_come_from_torchrun():
    found = Environment.read({"RANK": "3", "WORLD_SIZE": "4"})
    assert (found.rank, found.world) == (3, 4)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"RANK": "two"}, "RANK must be a whole number, not 'two'"),
        ({"WORLD_SIZE": "1.0"}, "WORLD_SIZE must be a whole number, not '1.0'"),
        ({"RANK": "1"}, "RANK=1 and WORLD_SIZE=1 do not go together: start with torchrun"),
        ({"RANK": "-1"}, "RANK=-1"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0"),
    ],
)
def test_ranks_that_cannot_be_are_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        Environment.read(values)


def test_the_environment_is_written_for_children_only():
    assert Environment.read(os.environ) == ENV
    tree = ast.parse(Path(env.__file__).read_text())
    writes = {"putenv", "unsetenv", "setdefault", "update", "pop"}
    writers = {
        function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if (isinstance(node, ast.Attribute) and node.attr in writes)
        or (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del))
    }
    assert writers == {"observe_children", "forget_children", "replace_environment"}


def test_what_is_set_for_children_is_taken_back(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", "mine")
    env.observe_children(tmp_path, {"steps": 5, "seconds": None, "full": False})
    told = Environment.read(os.environ).parent
    assert told is not None
    assert (told.folder, told.limits["steps"], told.plan) == (tmp_path, 5, None)
    assert os.environ["PYTHONPATH"].endswith(f"{os.pathsep}mine")
    env.forget_children()
    assert os.environ["PYTHONPATH"] == "mine"
    assert Environment.read(os.environ).parent is None


def test_torchrun_says_where_a_process_stands():
    names = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    found = Environment.read({**names, "TORCHELASTIC_RESTART_COUNT": "2"})
    assert (found.local_rank, found.local_world, found.restarts) == (1, 4, 2)
    alone = Environment.read({})
    assert (alone.local_rank, alone.local_world, alone.restarts) == (0, 1, 0)
