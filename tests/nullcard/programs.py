"""Runs programs on the null card, and reads what they did."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.nullcard.build import NullCardError, build
from tests.nullcard.cards import CARDS
from tests.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.preloaded import Preloaded

__all__ = [
    "Counts",
    "Ran",
    "as_json",
    "counted",
    "counts",
    "environment",
    "ordered",
    "python",
    "read_zeros",
    "reset",
    "run",
]

PYTHON = "HOTLOOP_NULLCARD_PYTHON"
# Larger copies to the card would take real memory; what they bring is then not there to come back.
COPY_MIB = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a process gave its card to do since its start, or since `reset`. Sizes are in bytes."""

    kernels: Mapping[str, int]  # demangled name -> launches; graphs are apart
    gemms: Mapping[str, int]  # routine of cuBLAS -> calls
    blas: Mapping[str, int]  # its other routines
    replayed_kernels: Mapping[str, int]  # by graphs
    replayed_gemms: Mapping[str, int]
    replayed_blas: Mapping[str, int]
    waits: Mapping[str, int]  # synchronising call -> times that it had work to wait for
    idle_waits: Mapping[str, int]  # the same calls when the host had waited for all of it before
    copies: Mapping[str, tuple[int, int]]  # kind -> calls, bytes
    memory: Mapping[str, int]  # limit, reserved, peak, mallocs, frees, refused, pinned...
    graphs: Mapping[str, int]
    streams: Mapping[str, int]

    @property
    def launches(self) -> int:
        """Return how many kernels the host launched, products included, copies and graphs not."""
        return sum(sum(part.values()) for part in (self.kernels, self.gemms, self.blas))

    @property
    def replayed(self) -> int:
        """Return how many kernels ran as nodes of graphs."""
        parts = (self.replayed_kernels, self.replayed_gemms, self.replayed_blas)
        return sum(sum(part.values()) for part in parts)

    @classmethod
    def read(cls, text: str | bytes) -> Counts:
        """Read the library's JSON. Kernels of one name, such as those of two libraries, add up."""
        data = json.loads(text)
        if data["schema"] != 1:
            raise NullCardError(f"expected counts of schema 1, got {data['schema']}")
        fields: dict[str, Any] = {}
        for name in cls.__dataclass_fields__:
            part = data[name]
            if isinstance(part, list):
                added: dict[str, int] = {}
                for key, count in part:
                    added[key] = added.get(key, 0) + count
                part = added
            fields[name] = part
        fields["copies"] = {kind: (calls, size) for kind, (calls, size) in data["copies"].items()}
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A script that ended well: what it put into `facts`, what it printed, and its counts."""

    facts: Mapping[str, Any]
    stdout: str
    counts: Counts


def python() -> str:
    """Return the interpreter with torch's CUDA build. Raises NullCardError if none is named."""
    if not (path := os.environ.get(PYTHON)):
        raise NullCardError(
            f"{PYTHON} names no interpreter with torch's CUDA build: run `make test-nullcard`"
        )
    return path


def environment(
    card: str, memory: int | None = None, *, counts: Path | None = None
) -> dict[str, str]:
    """Return the variables under which a program finds `card`, a key of CARDS.

    `memory` (MiB) replaces the card's. Each process that uses the card writes its counts to
    `counts` when it ends; `%p` in the name stands for its id. Raises NullCardError.
    """
    if card not in CARDS:
        raise NullCardError(f"there is no card {card!r}; there are: {', '.join(CARDS)}")
    one = CARDS[card]
    library = build()
    major, minor = one.capability
    variables = {
        "LD_PRELOAD": library,
        "TRITON_LIBCUDA_PATH": library.parent,  # Triton links a helper with it
        "NULLCARD_NAME": one.name,
        "NULLCARD_CAPABILITY": 10 * major + minor,
        "NULLCARD_MEMORY_MIB": one.memory_mib if memory is None else memory,
        "NULLCARD_SHARED_BLOCK_KIB": one.shared_per_block_kib,
        "NULLCARD_SHARED_SM_KIB": one.shared_per_sm_kib,
        "NULLCARD_L2_KIB": one.l2_kib,
        "NULLCARD_SM_COUNT": one.sm_count,
        "NULLCARD_WARP_SIZE": one.warp_size,
        "NULLCARD_CLOCK_MHZ": one.clock_mhz,
        "NULLCARD_THREADS_SM": one.threads_per_sm,
        "NULLCARD_BLOCKS_SM": one.blocks_per_sm,
        "NULLCARD_COPY_MIB": COPY_MIB,
    }
    if counts is not None:
        variables["NULLCARD_COUNTS"] = counts
    return {name: str(value) for name, value in variables.items()}


# ---- in a process on the null card ----


def counts() -> Counts:
    """Return the counts of this process. Raises NullCardError if it is not on the null card."""
    return Counts.read(as_json())


def as_json() -> str:
    """Return the counts of this process as the library writes them."""
    library = _own()
    size = library.nullcard_counts(None, 0)
    buffer = ctypes.create_string_buffer(size)
    library.nullcard_counts(buffer, size)
    return buffer.value.decode()


def reset() -> None:
    """Set the counts of this process to zero."""
    _own().nullcard_reset()


def read_zeros() -> None:
    """Let zeros come from the card from now on, not what its memory held: the same at each run."""
    _own().nullcard_read_zeros(1)


def counted(work: Callable[[], object]) -> Counts:
    """Return what `work` alone gave the card to do. The counts before it are lost."""
    reset()
    work()
    return counts()


def _own() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    if not hasattr(library, "nullcard_counts"):
        raise NullCardError("this process is not on the null card: start it with `environment`")
    library.nullcard_counts.restype = ctypes.c_size_t
    library.nullcard_counts.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    library.nullcard_ordered.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    return library


def ordered(first: int, second: int) -> bool:
    """Return whether all work of stream `first` comes before the next work of stream `second`.

    Both are handles: `torch.cuda.Stream.cuda_stream`.
    """
    return bool(_own().nullcard_ordered(first, second) == 1)


# ---- from outside ----


def run(
    card: str,
    script: str,
    *,
    memory: int | None = None,
    process: Preloaded | None = None,
    variables: Mapping[str, str] | None = None,
) -> Ran:
    """Run a Python script on a card, from `process` (which has torch already) or from the start.

    The script has `counted`, `counts`, `reset` and `ordered` of this module, and a dict `facts`
    that comes back. `variables` are added to its environment. Raises NullCardError, with what it
    said, if it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, answer = Path(folder) / "script.py", Path(folder) / "answer.json"
        source.write_text(script)
        module = "tests.nullcard.script"
        env = {**os.environ, **environment(card, memory), **(variables or {})}
        if process is not None:
            ended = process.run(source, answer, module=module, env=env)
        else:
            words = [python(), "-m", module, str(source), str(answer)]
            ended = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
        if ended.returncode or not answer.exists():
            raise NullCardError(f"exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
        said = json.loads(answer.read_text())
    read = Counts.read(json.dumps(said["counts"]))
    return Ran(facts=said["facts"], stdout=ended.stdout, counts=read)
