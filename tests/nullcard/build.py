"""Builds the null card's library at its first use, for an interpreter with torch's CUDA build."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.paths import ROOT

__all__ = ["NullCardError", "build", "check_torch"]

SOURCES = Path(__file__).parent / "library"
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-std=gnu11", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")
# The name by which torch's libraries and Triton look for the driver: the loader takes the library
# that is loaded already for it.
NAME = "libcuda.so.1"
ABI = "13."  # the layouts in the library are those of CUDA 13

_ASK = """
import importlib.util, pathlib, runpy
spec = importlib.util.find_spec("torch")
if spec is None:
    print("no torch")
else:
    folder = pathlib.Path(spec.origin).parent
    has = (folder / "lib" / "libtorch_cuda.so").exists()
    print(runpy.run_path(folder / "version.py")["cuda"] if has else None)
"""


class NullCardError(Exception):
    """The null card cannot be built or used here; the message says what is missing."""


def build() -> Path:
    """Return the library, compiled if its sources have changed. Raises NullCardError."""
    sources = sorted(SOURCES.glob("*.c"))
    digest = hashlib.sha256("\0".join(FLAGS).encode())
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.read_bytes())
    folder = ROOT / "build" / "nullcard" / digest.hexdigest()[:16]
    library = folder / NAME
    if library.exists():
        return library
    compiler = _compiler()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / NAME
        link = ("-o", str(made), f"-Wl,-soname,{NAME}", "-lpthread", "-ldl")
        ended = subprocess.run(
            [compiler, *FLAGS, *map(str, sources), *link], capture_output=True, text=True
        )
        if ended.returncode:
            raise NullCardError(f"{compiler} did not build the null card:\n{ended.stderr}")
        made.replace(library)  # at once: another process may build it too
    return library


def _compiler() -> str:
    named = os.environ.get("CC")
    for name in (named,) if named else COMPILERS:
        if shutil.which(name):
            return name
    if named:
        raise NullCardError(f"CC names {named!r}, which is no program here: name a C compiler")
    raise NullCardError(f"there is no C compiler ({', '.join(COMPILERS)}): install one")


def check_torch(python: str) -> None:
    """Raise NullCardError unless this interpreter has a build of torch for CUDA 13."""
    ended = subprocess.run([python, "-c", _ASK], capture_output=True, text=True)
    cuda = ended.stdout.strip()
    if ended.returncode or not cuda.startswith(ABI):
        found = {"no torch": "has no torch", "None": "has torch without CUDA's libraries"}.get(
            cuda, f"has torch for CUDA {cuda}" if cuda else f"failed:\n{ended.stderr}"
        )
        raise NullCardError(
            f"{python} {found}; the null card needs a build of torch for CUDA 13: "
            "install torch from PyPI on Linux, as `make test-nullcard` does"
        )
