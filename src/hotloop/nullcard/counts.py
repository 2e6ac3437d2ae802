"""What a process gives a null card to do; and the environment in which it finds one."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.errors import DataError, HotloopError
from hotloop.nullcard.build import build

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hotloop.nullcard.cards import Card

__all__ = [
    "CardCounts",
    "Ticks",
    "as_json",
    "counted",
    "counts",
    "environment",
    "ordered",
    "read_zeros",
    "reset",
    "take_time",
    "worked_seconds",
]

# Larger copies to the card would take real memory; what they bring is then not there to come back.
COPY_MIB: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CardCounts:
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
    def read(cls, text: str | bytes) -> CardCounts:
        """Read the library's JSON. Kernels of one name, such as those of two libraries, add up."""
        data = json.loads(text)
        if data["schema"] != 1:
            raise DataError(f"expected counts of schema 1, got {data['schema']}")
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


def environment(
    card: Card,
    memory: int | None = None,
    *,
    counts: Path | None = None,
    rates: Sequence[float] | None = None,
) -> dict[str, str]:
    """Return the variables under which a program finds `card`.

    `memory` (MiB) replaces the card's. Each process that uses the card writes its counts to
    `counts` when it ends; `%p` in the name stands for its id. With `rates` the card's work takes
    time: FLOP/s in fp64, fp32, tf32, fp16 and bf16, and the bytes/s of its memory and of the bus.
    Raises DeviceError and WriteError, as `build` does.
    """
    library = build()
    major, minor = card.capability
    variables = {
        "LD_PRELOAD": library,
        "TRITON_LIBCUDA_PATH": library.parent,  # Triton links a helper with it
        "NULLCARD_NAME": card.name,
        "NULLCARD_CAPABILITY": 10 * major + minor,
        "NULLCARD_MEMORY_MIB": card.memory_mib if memory is None else memory,
        "NULLCARD_SHARED_BLOCK_KIB": card.shared_per_block_kib,
        "NULLCARD_SHARED_SM_KIB": card.shared_per_sm_kib,
        "NULLCARD_L2_KIB": card.l2_kib,
        "NULLCARD_SM_COUNT": card.sm_count,
        "NULLCARD_WARP_SIZE": card.warp_size,
        "NULLCARD_CLOCK_MHZ": card.clock_mhz,
        "NULLCARD_THREADS_SM": card.threads_per_sm,
        "NULLCARD_BLOCKS_SM": card.blocks_per_sm,
        "NULLCARD_COPY_MIB": COPY_MIB,
    }
    if counts is not None:
        variables["NULLCARD_COUNTS"] = counts
    if rates is not None:
        variables["NULLCARD_RATES"] = ",".join(f"{rate:.6e}" for rate in rates)
    return {name: str(value) for name, value in variables.items()}


class Ticks:
    """How many launches and waits this process has made so far: two numbers, cheap to read."""

    def __init__(self) -> None:
        """Raise HotloopError if this process is not on a null card."""
        library = _own()
        self._launched = ctypes.c_uint64.in_dll(library, "nullcard_launched")
        self._waited = ctypes.c_uint64.in_dll(library, "nullcard_waited")

    def read(self) -> tuple[int, int]:
        """Return kernels that the host launched, and calls that had to wait."""
        return self._launched.value, self._waited.value


def take_time(on: bool) -> None:
    """Let the work take time from now on, or none; the card must have been started with rates."""
    _own().nullcard_take_time(int(on))


def worked_seconds() -> float:
    """Return how long a card whose work takes time has worked so far in this process."""
    library = _own()
    library.nullcard_worked_ms.restype = ctypes.c_double
    return float(library.nullcard_worked_ms()) / 1000


def counts() -> CardCounts:
    """Return the counts of this process. Raises HotloopError if it is not on a null card."""
    return CardCounts.read(as_json())


def as_json() -> str:
    """Return the counts of this process as the library writes them."""
    library = _own()
    buffer = ctypes.create_string_buffer(1)
    while (size := library.nullcard_counts(buffer, len(buffer))) > len(buffer):
        buffer = ctypes.create_string_buffer(size)  # another thread may add to it in between
    return buffer.value.decode()


def reset() -> None:
    """Set the counts of this process to zero."""
    _own().nullcard_reset()


def read_zeros() -> None:
    """Let zeros come from the card from now on, not what its memory held: the same at each run."""
    _own().nullcard_read_zeros(1)


def counted(work: Callable[[], object]) -> CardCounts:
    """Return what `work` alone gave the card to do. The counts before it are lost."""
    reset()
    work()
    return counts()


def _own() -> ctypes.CDLL:
    library = ctypes.CDLL(None)
    if not hasattr(library, "nullcard_counts"):
        raise HotloopError(
            "this process is not on a simulated card: start it with the variables of `environment`"
        )
    library.nullcard_counts.restype = ctypes.c_size_t
    library.nullcard_counts.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    library.nullcard_ordered.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    return library


def ordered(first: int, second: int) -> bool:
    """Return whether all work of stream `first` comes before the next work of stream `second`.

    Both are handles: `torch.cuda.Stream.cuda_stream`.
    """
    return bool(_own().nullcard_ordered(first, second) == 1)
