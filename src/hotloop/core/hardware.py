"""The machine as training sees it, and what it supports. Unknown is None.

Format history: schema 1 (2026-11).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from hotloop.core.codec import to_json
from hotloop.core.errors import DataError, HotloopError, did_you_mean
from hotloop.core.gpu_specs import GpuSpec, find_gpu
from hotloop.core.measurement import Measurement, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["DTYPES", "HEAD_ROOM", "Device", "Hardware"]

Device = Literal["cpu", "cuda", "mps"]
DTYPES = ("fp32", "tf32", "bf16", "fp16")  # the names of the speeds
HEAD_ROOM = 0.9  # largest forecast share of the memory; it leaves out workspaces and fragments
SCHEMA = 1

_BF16_CPU = frozenset({"avx512_bf16", "amx_bf16", "bf16"})  # the last one is Arm's


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One machine and its training device. `machine.detect` fills it in."""

    device: Device
    name: str  # of the device, as the driver or /proc/cpuinfo spells it
    count: int = 1  # devices of this kind
    memory_bytes: int | None = None  # of ONE device; on cpu: all that this process may have
    host_memory_bytes: int | None = None  # all that this process may have within its cgroups
    cores: float | None = None  # the smaller of affinity and cgroup quota; may be a fraction
    capability: tuple[int, int] | None = None  # CUDA compute capability
    smem_bytes: int | None = None  # largest shared memory of a block (opt-in)
    cpu_features: frozenset[str] = frozenset()  # flags as the kernel names them; empty: unknown
    versions: Mapping[str, str] = field(default_factory=dict)
    measured: Mapping[str, Measurement] = field(default_factory=dict)  # dtype -> FLOP/s

    @property
    def gpu(self) -> GpuSpec | None:
        """Return the vendor's figures of this device if name, memory and capability agree."""
        gpu = find_gpu(self.name, self.memory_bytes) if self.device == "cuda" else None
        agrees = gpu is not None and self.capability in (None, gpu.capability)
        return gpu if agrees else None

    def peak_flops(self, dtype: str) -> Measurement | None:
        """Return dense FLOP/s of one device, published or else measured; None if neither is known.

        MFU refers to the published peak; `measured[dtype]` is the ceiling measured on this machine.
        """
        if dtype not in DTYPES:
            hint = did_you_mean(dtype, DTYPES)
            raise HotloopError(f"peak_flops: expected one of {DTYPES}, got {dtype!r}{hint}")
        gpu = self.gpu
        if gpu is None or dtype not in gpu.flops:
            return self.measured.get(dtype)
        return _cited(gpu, "FLOP/s", gpu.flops[dtype])

    def bandwidth(self) -> Measurement | None:
        """Return the published bytes/s between one device and its memory, or None."""
        gpu = self.gpu
        if gpu is None or gpu.bandwidth is None:
            return None
        return _cited(gpu, "bytes/s", gpu.bandwidth)

    def why_no_bf16(self) -> str | None:
        """Return why bf16 does not pay here, or None. Emulated bf16 (T4) counts as unsupported."""
        if self.device == "mps":
            return "bf16 on Apple's MPS is untested"
        if self.device == "cuda":
            return self._why_below(
                (8, 0), "bf16", "it would be emulated, about 4x slower; use fp16"
            )
        if not self.cpu_features:
            return f"the instruction set of {self.name} is unknown, so bf16 cannot be judged"
        if self.cpu_features & _BF16_CPU:
            return None
        return f"{self.name} has none of {sorted(_BF16_CPU)}; bf16 would be emulated, use fp32"

    def why_no_fp16(self) -> str | None:
        """Return why fp16 does not pay here, or None."""
        if self.device == "mps":
            return "fp16 on Apple's MPS is untested"
        if self.device == "cuda":
            return self._why_below((7, 0), "fp16 tensor cores", "use fp32")
        # Measured 2026-11 with torch 2.13 (shared design, LIBRARIES pitfall 6).
        return "fp16 on a CPU runs 40 to 100 times slower than fp32; use bf16 or fp32"

    def why_no_tf32(self) -> str | None:
        """Return why TF32 is not available here, or None."""
        if self.device != "cuda":
            return f"TF32 is a format of CUDA tensor cores; this is a {self.device} device"
        return self._why_below((8, 0), "TF32", "fp32 stays fp32")

    def why_no_fp8(self) -> str | None:
        """Return why float8 products are not available here, or None."""
        if self.device != "cuda":
            return f"float8 products need a CUDA GPU, and this is a {self.device} device"
        return self._why_below((8, 9), "float8 products", "use int8-mixed-precision or bf16")

    def why_no_int8(self) -> str | None:
        """Return why int8 products do not pay in training here, or None."""
        if self.device != "cuda":
            return f"int8 products need a CUDA GPU, and this is a {self.device} device"
        return self._why_below((8, 0), "training by int8 products", "use fp16")

    def why_no_flash(self) -> str | None:
        """Return why PyTorch's flash attention cannot run here, or None. The CPU has its own."""
        if self.device == "mps":
            return "PyTorch has no flash attention for Apple's MPS"
        if self.device == "cpu":
            return None
        return self._why_below((8, 0), "FlashAttention-2", "use the efficient or math back end")

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values under a schema number."""
        return to_json(self, schema=SCHEMA)

    @classmethod
    def from_json(cls, value: object, *, place: str = "hardware") -> Self:
        """Return the object that `to_json` wrote; errors name it `place`. Raises DataError."""
        if not isinstance(value, dict) or value.get("schema") != SCHEMA:
            raise DataError(f"{place}: expected an object of schema {SCHEMA}, got {value!r:.80}")
        known = {item.name for item in fields(cls)}
        for key in value.keys() - known - {"schema"}:
            raise DataError(f"{place}: unknown key {key!r}{did_you_mean(str(key), known)}")
        if missing := sorted(known - value.keys()):
            raise DataError(f"{place}: missing {', '.join(missing)}")
        return cls(**{name: _read(name, value[name], f"{place}.{name}") for name in known})

    def _why_below(self, needed: tuple[int, int], what: str, remedy: str) -> str | None:
        need = ".".join(map(str, needed))
        if self.capability is None:
            return f"{what} needs compute capability {need}; that of {self.name} is unknown"
        if self.capability >= needed:
            return None
        has = ".".join(map(str, self.capability))
        return f"{what} needs compute capability {need}, {self.name} has {has}: {remedy}"


def _cited(gpu: GpuSpec, unit: str, value: float) -> Measurement:
    source: Source = "derived" if gpu.derived else "published"
    return Measurement(unit=unit, readings=(value,), source=source, where=gpu.source)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_cores(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < 1e6 and value is not True


_TEXT = (_is_text, "a string")
_WHOLE = (_is_whole, "a whole number >= 0")
_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {  # of each field: whether it fits, in words
    "device": (lambda value: value in get_args(Device), f"one of {get_args(Device)}"),
    "name": _TEXT,
    "count": _WHOLE,
    "memory_bytes": _WHOLE,
    "host_memory_bytes": _WHOLE,
    "cores": (_is_cores, "a number of cores > 0 or null"),
    "capability": (lambda v: isinstance(v, list) and len(v) == 2, "[major, minor] or null"),
    "smem_bytes": _WHOLE,
    "cpu_features": (lambda value: isinstance(value, list), "a list of flags"),
    "versions": (lambda value: isinstance(value, dict), "an object"),
    "measured": (lambda value: isinstance(value, dict), "an object"),
}
_MAYBE_NULL = ("memory_bytes", "host_memory_bytes", "cores", "capability", "smem_bytes")


def _checked(value: Any, place: str, fits: Callable[[Any], bool], words: str) -> Any:
    if not fits(value):
        raise DataError(f"{place}: expected {words}, got {value!r:.60}")
    return value


def _read(name: str, value: Any, place: str) -> Any:
    """Return a field of a Hardware from its JSON value. Raises DataError that names its place."""
    if value is None and name in _MAYBE_NULL:
        return None
    _checked(value, place, *_FORMS[name])
    if name == "capability":
        return tuple(_checked(number, place, *_WHOLE) for number in value)
    if name == "cpu_features":
        return frozenset(_checked(flag, place, *_TEXT) for flag in value)
    if name in ("versions", "measured"):
        items = {_checked(key, place, *_TEXT): item for key, item in value.items()}
        if name == "versions":
            return {key: _checked(item, f"{place}.{key}", *_TEXT) for key, item in items.items()}
        for dtype in items.keys() - set(DTYPES):
            raise DataError(f"{place}: unknown dtype {dtype!r}{did_you_mean(dtype, DTYPES)}")
        return {d: Measurement.from_json(i, place=f"{place}.{d}") for d, i in items.items()}
    return value
