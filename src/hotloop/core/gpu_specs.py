"""What vendors publish about their GPUs: dense peaks, bandwidth, memory. One cited line per GPU.

A GPU is found only if every word of its device name is known here: a laptop part, a `Ti`, a `D`, a
MIG slice or a vGPU of the same number is another GPU, and a GPU that is not listed is unknown.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hotloop.core.errors import UsageError

__all__ = ["GPUS", "GpuSpec", "find_gpu", "gpu_named"]

_TERA, _GIB = 1e12, 1 << 30
_MEMORY_OFF = 0.12  # ECC and driver take 2-8 % of the nominal memory; 10 against 12 GiB is 17 %

# NVIDIA's own pages; tensor peaks are dense, with fp32 accumulation. Read 2026-11 in stored copies
# and in the tables of Lightning, torchtitan, nanochat, composer and PrimeIntellect/prime that cite
# these pages; a figure found in none of them is None here.
_WWW = "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center"
_IMG = "https://images.nvidia.com"
_V100 = f"{_IMG}/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf"
_T4 = f"{_WWW}/tesla-t4/t4-tensor-core-datasheet-951643.pdf"
_A100 = f"{_WWW}/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
_A10 = f"{_WWW}/a10/pdf/datasheet-new/nvidia-a10-datasheet.pdf"
_L4 = "https://www.nvidia.com/en-us/data-center/l4/"
_L40S = "https://www.nvidia.com/en-us/data-center/l40s/"
_H100 = "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet"
_H200 = "https://www.nvidia.com/en-us/data-center/h200/"
_GA102 = (
    "https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf"
)
_ADA = f"{_IMG}/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf"
_GB202 = f"{_IMG}/aem-dam/Solutions/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf"
_GEFORCE = "https://www.nvidia.com/en-us/geforce/graphics-cards"
# 28 SM x 512 FLOP per clock (the rate of the GA102 whitepaper) x 1.78 GHz of the product page
_RTX3060 = f"28 SM x 512 x 1.78 GHz, {_GEFORCE}/30-series/rtx-3060-3060ti/"
_RTX3060_12 = (
    f"{_RTX3060}, 192 bit x 15 Gbit/s, "
    "https://sysrqmts.com/vi/gpus/compare/nvidia-geforce-rtx-3060-vs-nvidia-geforce-rtx-3090-ti"
)
_RTX3060_8 = (
    f"{_RTX3060}, 128 bit x 15 Gbit/s, https://fpsbench.com/compare/gpu/"
    "nvidia-geforce-rtx-3060-8-gb-vs-nvidia-geforce-rtx-4060-mobile"
)
# AI TOPS are sparse fp8, 8 times dense bf16 (4090: 1321 and 165.2; 4080: 780 and 97.5)
_RTX4080S = f"836 AI TOPS / 8, 256 bit x 23 Gbit/s, {_GEFORCE}/40-series/rtx-4080-family/"
# 128 and 512 FLOP per clock and SM; a T4 has 1024, GeForce accumulates in fp32 at half rate
_TURING = (
    f"{_IMG}/aem-dam/en-zz/Solutions/design-visualization/technologies/turing-architecture/"
    "NVIDIA-Turing-Architecture-Whitepaper.pdf"
)
_RTX2080 = f"46 SM x 128 (fp32) and x 512 x 1.71 GHz, 256 bit x 14 Gbit/s, {_TURING}"
# 24 SM x 512 FLOP per clock (the rate of the Ada whitepaper) x 2.46 GHz of the product page
_RTX4060 = f"24 SM x 512 x 2.46 GHz, 128 bit x 17 Gbit/s, {_GEFORCE}/40-series/rtx-4060-4060ti/"


_RTX50 = (  # 28, 28 and 30 Gbit/s on 192, 256 and 256 bit
    "https://www.tweaktown.com/news/102469/"
    "nvidia-geforce-rtx-50-series-specs-pricing-and-performance-plan-that-upgrade-today/index.html"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """A GPU as its vendor describes it. Unconfirmed figures are absent or None."""

    words: frozenset[str]  # words of the device name, all required, in lower case
    optional: frozenset[str]  # further words allowed; any other word means another GPU
    capability: tuple[int, int]
    flops: Mapping[str, float]  # fp32, tf32, bf16, fp16 -> dense FLOP/s
    bandwidth: float | None  # bytes/s
    memory_bytes: int  # nominal
    source: str
    derived: bool = False  # peaks are computed from published figures, as `source` says

    @property
    def name(self) -> str:
        """Return its words in their usual order: rtx 4080 super."""
        return " ".join(sorted(self.words, key=_word_order))


def _gpu(
    words: str,
    capability: tuple[int, int],
    gib: int,
    tera_bytes: float | None,
    fp32: float | None,
    tf32: float | None,
    half: float | None,
    source: str,
    *,
    also: str = "",
    derived: bool = False,
) -> GpuSpec:
    bf16 = half if capability >= (8, 0) else None  # tensor cores have bf16 from Ampere on
    tera = {"fp32": fp32, "tf32": tf32, "bf16": bf16, "fp16": half}
    return GpuSpec(
        words=frozenset(words.split()),
        optional=frozenset(f"nvidia geforce tesla {gib}gb {also}".split()),
        capability=capability,
        flops={dtype: rate * _TERA for dtype, rate in tera.items() if rate is not None},
        bandwidth=tera_bytes * _TERA if tera_bytes else None,
        memory_bytes=gib * _GIB,
        source=source,
        derived=derived,
    )


def _derived() -> list[GpuSpec]:
    """Return the GPUs of geforce.json, whose peaks follow from multiprocessors and clock.

    A multiprocessor makes 128 FLOP per clock in fp32 and 512 in 16 bit on Turing, 256 and 512 on
    later ones (_TURING, _GA102, _ADA, _GB202). Laptop parts run at the clock of their power limit:
    their peaks are unknown.
    """
    text = (Path(__file__).parent / "geforce.json").read_text(encoding="utf-8")
    return [_of_multiprocessors(**row) for row in json.loads(text)]


def _of_multiprocessors(
    *,
    name: str,
    capability: Sequence[int],
    gib: int,
    source: str,
    sms: int | None = None,
    boost_mhz: int = 0,
    bus_bits: int | None = None,
    gbit_per_pin: float = 0.0,
) -> GpuSpec:
    major, minor = capability
    fp32 = tf32 = half = None
    shown = []
    if sms is not None:
        per_clock = 128 if major == 7 else 256
        fp32, half = (round(sms * n * boost_mhz / 1e6, 1) for n in (per_clock, 512))
        tf32 = None if major == 7 else fp32
        shown.append(f"{sms} SM x {per_clock} (fp32) and x 512 x {boost_mhz / 1000} GHz")
    tera_bytes = None
    if bus_bits is not None:
        tera_bytes = bus_bits * gbit_per_pin / 8 / 1000
        shown.append(f"{bus_bits} bit x {gbit_per_pin} Gbit/s")
    cited = ", ".join((*shown, source))
    figures = (gib, tera_bytes, fp32, tf32, half, cited)
    return _gpu(name, (major, minor), *figures, also="gpu" * name.endswith("laptop"), derived=True)


# words, capability, GiB, TB/s, TFLOP/s in fp32, tf32 and 16 bit, source
GPUS: tuple[GpuSpec, ...] = (
    _gpu("v100 sxm2", (7, 0), 16, 0.9, 15.7, None, 125, _V100),
    _gpu("v100 sxm2", (7, 0), 32, 0.9, 15.7, None, 125, _V100),
    _gpu("v100 pcie", (7, 0), 16, 0.9, 14, None, 112, _V100),
    _gpu("v100 pcie", (7, 0), 32, 0.9, 14, None, 112, _V100),
    _gpu("t4", (7, 5), 16, 0.32, 8.1, None, 65, _T4),
    _gpu("rtx 2080", (7, 5), 8, 0.448, 10.1, None, 40.3, _RTX2080, derived=True),
    _gpu("a100 40gb", (8, 0), 40, 1.555, 19.5, 156, 312, _A100, also="sxm4 pcie"),
    _gpu("a100 80gb pcie", (8, 0), 80, 1.935, 19.5, 156, 312, _A100),
    _gpu("a100 80gb sxm4", (8, 0), 80, 2.039, 19.5, 156, 312, _A100),
    _gpu("a10", (8, 6), 24, 0.6, 31.2, 62.5, 125, _A10),  # the A10G is another GPU
    _gpu("rtx 3060", (8, 6), 12, 0.36, 12.7, 12.7, 25.5, _RTX3060_12, derived=True),
    _gpu("rtx 3060", (8, 6), 8, 0.24, 12.7, 12.7, 25.5, _RTX3060_8, derived=True),
    _gpu("rtx 3070", (8, 6), 8, 0.448, 20.3, 20.3, 40.6, _GA102),
    _gpu("rtx 3080", (8, 6), 10, 0.76, 29.8, 29.8, 59.5, _GA102),
    _gpu("rtx 3090", (8, 6), 24, 0.936, 35.6, 35.6, 71, _GA102),
    _gpu("l4", (8, 9), 24, 0.3, 30.3, 60, 121, _L4),  # page, sparse: 120, 242
    _gpu("l40s", (8, 9), 48, 0.864, 91.6, 183, 362.05, _L40S),
    _gpu("rtx 4060", (8, 9), 8, 0.272, 15.1, 15.1, 30.2, _RTX4060, derived=True),
    _gpu("rtx 4070", (8, 9), 12, None, 29.1, 29.1, 58.3, _GB202),  # GDDR6X and GDDR6, one name
    _gpu("rtx 4070 ti", (8, 9), 12, 0.504, 40.1, 40.1, 80.2, _ADA),
    _gpu("rtx 4080", (8, 9), 16, 0.7168, 48.7, 48.7, 97.5, _ADA),
    _gpu("rtx 4080 super", (8, 9), 16, 0.736, 52.2, 52.2, 104.5, _RTX4080S, derived=True),
    _gpu("rtx 4090", (8, 9), 24, 1.008, 82.6, 82.6, 165.2, _ADA),
    _gpu("h100 pcie", (9, 0), 80, 2.0, 51, 378, 756.5, _H100),  # page, sparse: 756, 1513
    _gpu("h100 hbm3", (9, 0), 80, 3.35, 67, 494.5, 989.5, _H100),  # SXM, sparse: 989, 1979
    _gpu("h200", (9, 0), 141, 4.8, 67, 494.5, 989.5, _H200),  # SXM, sparse: 989, 1979
    _gpu("rtx 5070", (12, 0), 12, 0.672, 30.9, 30.9, 61.7, f"{_GB202} {_RTX50}"),
    _gpu("rtx 5070 ti", (12, 0), 16, 0.896, 43.9, 43.9, 87.9, f"{_GB202} {_RTX50}"),
    _gpu("rtx 5080", (12, 0), 16, 0.96, 56.3, 56.3, 112.6, f"{_GB202} {_RTX50}"),
    _gpu("rtx 5090", (12, 0), 32, 1.792, 104.8, 104.8, 209.5, _GB202),
    *_derived(),
)


def _word_order(word: str) -> tuple[int, str]:
    """Return the sort key of a word in a name: series, number, "ti", then all other words."""
    number = any(letter.isdigit() for letter in word)
    is_model = number and not word.endswith("gb")
    return (0 if word == "rtx" else 1 if is_model else 2 if word == "ti" else 3), word


def gpu_named(text: str) -> GpuSpec:
    """Return the GPU with a short name: rtx3090, "RTX 4080 Super", t4. UsageError lists all."""
    words = re.sub(r"(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])", " ", text.lower())
    words = re.sub(r"\b([tlhav]) (?=\d)", r"\1", re.sub(r"(?<=\d) s\b", " super", words))
    words = re.sub(r"(?<=l40) s\b|(?<=l40) super\b", "s", re.sub(r"(?<=\d) gb\b", "gb", words))
    if (gpu := find_gpu(words)) is None:
        known = sorted({gpu.name for gpu in GPUS})
        raise UsageError(f"no GPU is called {text!r}; there are: {', '.join(known)}")
    return gpu


def find_gpu(name: str, memory_bytes: int | None = None) -> GpuSpec | None:
    """Return the only GPU that `name` can mean, or None if it is unknown or ambiguous.

    `memory_bytes`, if known, must agree: it distinguishes GPUs of one name and detects modified
    ones. GPUs of one name with equal peaks, such as the two V100, need no memory; without it the
    bandwidth of two that differ in it is None.
    """
    words = frozenset(re.split(r"[\s\-_()]+", name.lower())) - {""}
    fits = [
        gpu
        for gpu in GPUS
        if gpu.words <= words <= gpu.words | gpu.optional and _memory_fits(gpu, memory_bytes)
    ]
    if not fits or any(one.flops != fits[0].flops for one in fits):
        return None
    is_same = all(one.bandwidth == fits[0].bandwidth for one in fits)
    return fits[0] if is_same else replace(fits[0], bandwidth=None)


def _memory_fits(gpu: GpuSpec, memory_bytes: int | None) -> bool:
    return memory_bytes is None or abs(memory_bytes / gpu.memory_bytes - 1) <= _MEMORY_OFF
