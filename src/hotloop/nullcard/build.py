"""Builds the null card's library at its first use, and says what an interpreter lacks for it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from hotloop.core.env import ENV, named
from hotloop.core.errors import DeviceError, WriteError

__all__ = ["build", "check_torch"]

SOURCES: Final = Path(__file__).parent / "library"
COMPILERS: Final = ("cc", "gcc", "clang")
FLAGS: Final = ("-std=gnu11", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")
# By these names torch's libraries and Triton look for the driver, and torch for NVML: the loader
# takes the library that is loaded already.
NAME: Final = "libcuda.so.1"
NVML: Final = "libnvidia-ml.so.1"
ABI: Final = "13."  # the layouts in the library are those of CUDA 13
_SEPARATORS: Final = " :"  # of LD_PRELOAD, ld.so(8): a path with one of them cannot be loaded

_ASK: Final = """
import importlib.util, pathlib, runpy
spec = importlib.util.find_spec("torch")
if spec is None:
    print("no torch")
else:
    folder = pathlib.Path(spec.origin).parent
    has = (folder / "lib" / "libtorch_cuda.so").exists()
    print(runpy.run_path(folder / "version.py")["cuda"] if has else None)
"""


def build(cache: Path | None = None) -> Path:
    """Return the path of the library, compiled if its sources have changed.

    It lies in `cache`, which is hotloop's own unless it is given. Raises DeviceError if it cannot
    be built on this system, WriteError if the folder cannot be written.
    """
    if sys.platform != "linux":
        raise DeviceError(
            f"a simulated card needs Linux, not {sys.platform}: use a Linux machine, a container "
            "or WSL"
        )
    digest = hashlib.sha256("\0".join(FLAGS).encode())
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.read_bytes())
    folder = (cache or ENV.cache) / "nullcard" / digest.hexdigest()[:16]
    if set(_SEPARATORS) & set(str(folder)):
        raise DeviceError(
            f"{folder}: a library is not preloaded from a path with a space or a colon; set "
            "HOTLOOP_CACHE to another folder"
        )
    library = folder / NAME
    if library.exists():
        return library
    compiler = _compiler()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            for made in _compiled(compiler, Path(scratch)):
                made.replace(folder / made.name)  # another process may, too; the card comes last
    except OSError as error:
        raise WriteError(
            f"{folder}: the library of the simulated card cannot be written "
            f"({error.strerror}); set HOTLOOP_CACHE to a folder that can be written"
        ) from error
    return library


def _compiler() -> str:
    own = named(["CC"]).get("CC")
    for name in (own,) if own else COMPILERS:
        if shutil.which(name):
            return name
    if own:
        raise DeviceError(f"CC names {own!r}, which is no program here: name a C compiler")
    raise DeviceError(
        f"there is no C compiler ({', '.join(COMPILERS)}): install one, such as with "
        "`apt install gcc`"
    )


def _compiled(compiler: str, folder: Path) -> tuple[Path, Path]:
    """Compile the stand-in for NVML, and the card, which loads it from its own folder."""
    own = SOURCES / "nvml.c"
    sources = [path for path in sorted(SOURCES.glob("*.c")) if path != own]
    nvml, card = folder / NVML, folder / NAME
    needed = ("-Wl,-no-as-needed", "-Wl,-rpath,$ORIGIN", str(nvml), "-lpthread", "-ldl")
    for made, parts, link in ((nvml, [own], ()), (card, sources, needed)):
        words = (*map(str, parts), "-o", str(made), f"-Wl,-soname,{made.name}", *link)
        ended = subprocess.run([compiler, *FLAGS, *words], capture_output=True, text=True)
        if ended.returncode:
            raise DeviceError(f"{compiler} did not build the simulated card:\n{ended.stderr}")
    return nvml, card


def check_torch(python: str) -> None:
    """Raise DeviceError unless this interpreter has a build of torch for CUDA 13."""
    ended = subprocess.run([python, "-c", _ASK], capture_output=True, text=True)
    cuda = ended.stdout.strip()
    if ended.returncode or not cuda.startswith(ABI):
        found = {"no torch": "has no torch", "None": "has torch without CUDA's libraries"}.get(
            cuda, f"has torch for CUDA {cuda}" if cuda else f"failed:\n{ended.stderr}"
        )
        raise DeviceError(
            f"{python} {found}; a simulated card needs a build of torch for CUDA 13 (3 GB, no "
            "card). Make an environment for it: python3 -m venv cuda-torch; "
            "cuda-torch/bin/pip install torch --index-url https://download.pytorch.org/whl/cu130; "
            "cuda-torch/bin/pip install hotloop and what the script imports; then start "
            "cuda-torch/bin/hotloop"
        )
