"""The library is built once, and what is missing is said in one sentence."""

import pytest
from tests.nullcard import build as building
from tests.nullcard.build import NullCardError, build, check_torch

pytestmark = pytest.mark.nullcard


def test_it_is_built_once():
    first = build()
    assert first.name == "libcuda.so.1"
    made = first.stat().st_mtime_ns
    assert build() == first
    assert first.stat().st_mtime_ns == made


def test_without_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setattr(building, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(NullCardError, match=r"there is no C compiler \(cc, gcc, clang\): install"):
        build()
    monkeypatch.setenv("CC", "tcc-of-mine")
    with pytest.raises(NullCardError, match="CC names 'tcc-of-mine', which is no program here"):
        build()


def test_a_compiler_that_fails_is_quoted(monkeypatch, tmp_path):
    monkeypatch.setattr(building, "ROOT", tmp_path)
    monkeypatch.setattr(building, "FLAGS", ("-DPAGE=none",))
    with pytest.raises(NullCardError, match=r"did not build the null card:\n(.|\n)*PAGE"):
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
    with pytest.raises(NullCardError) as raised:
        check_torch(str(python))
    assert said in str(raised.value)
    assert "install torch from PyPI on Linux, as `make test-nullcard` does" in str(raised.value)
