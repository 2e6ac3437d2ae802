"""The library is built once, and what is missing is said in one sentence."""

import pytest

from hotloop.core.errors import DeviceError, WriteError
from hotloop.nullcard import build as building
from hotloop.nullcard.build import build, check_torch

pytestmark = pytest.mark.nullcard


def test_it_is_built_once():
    first = build()
    assert first.name == "libcuda.so.1"
    made = first.stat().st_mtime_ns
    assert build() == first
    assert first.stat().st_mtime_ns == made


def test_without_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(DeviceError, match=r"there is no C compiler \(cc, gcc, clang\): install"):
        build(tmp_path)
    monkeypatch.setenv("CC", "tcc-of-mine")
    with pytest.raises(DeviceError, match="CC names 'tcc-of-mine', which is no program here"):
        build(tmp_path)


def test_a_compiler_that_fails_is_quoted(monkeypatch, tmp_path):
    monkeypatch.setattr(building, "FLAGS", ("-DPAGE=none",))
    with pytest.raises(DeviceError, match=r"did not build the simulated card:\n(.|\n)*PAGE"):
        build(tmp_path)


def test_a_folder_that_is_no_folder(tmp_path):
    file = tmp_path / "cache"
    file.write_text("")
    with pytest.raises(
        WriteError, match=r"cannot be written \(Not a directory\); set HOTLOOP_CACHE"
    ):
        build(file)


def test_a_path_that_cannot_be_preloaded(tmp_path):
    with pytest.raises(DeviceError, match="with a space or a colon; set HOTLOOP_CACHE to another"):
        build(tmp_path / "my cache")


def test_another_system_is_told_where_it_works(monkeypatch):
    monkeypatch.setattr(building.sys, "platform", "darwin")
    with pytest.raises(DeviceError, match="needs Linux, not darwin"):
        build()


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("echo no torch", "has no torch"),
        ("echo None", "has torch without CUDA's libraries"),
        ("echo 12.8", "has torch for CUDA 12.8"),
        ("echo broken >&2; exit 1", "failed:\nbroken"),
    ],
)
def test_an_interpreter_without_the_right_torch(tmp_path, printed, said):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{printed}\n")
    python.chmod(0o755)
    with pytest.raises(DeviceError) as raised:
        check_torch(str(python))
    assert said in str(raised.value)
    assert "pip install torch --index-url https://download.pytorch.org/whl/cu130" in str(
        raised.value
    )
    assert raised.value.exit_code == 69
