"""oneDNN matrix products: float32 products of a CPU go to a faster library at equal accuracy.

What: sets torch's float32 matmul precision to "medium", for which torch hands products to oneDNN
    where the CPU has AVX-512. That allows bf16 inside, which oneDNN uses where AMX is; so one
    product is compared with float64 first, and with a relative error above 1e-6 nothing changes.
    Nor does it where torch returns the same bits, or below 1.1 times the rate of before: a recipe
    times its own first micro batches both ways, for small and changing shapes can run several times
    slower through oneDNN; a script is not running yet, so there one product of 512 x 512 decides.
    A script that reads or sets a switch of float32 precision finds all of them as without us from
    then on.
Helps when: products run in float32 on a CPU with AVX-512 and without AMX that torch's BLAS
    (MKL) does not use in full: 2.27x on one, in others' measurement.
Does not help when: products run in bf16; on CPUs with AVX2 only, where torch does not ask oneDNN.
Numbers: rounding, at float32's accuracy. What timing decided stands in the plan of a run as
    `rate`, so that a resumed run does the same. A trial of tune or bench takes rate=higher: its own
    steps are what is timed.
Measured: on an AMD EPYC with AVX2 only, torch 2.13: the same bits, so nothing changes; with
    AVX-512 it is not measured here.
Source: https://docs.pytorch.org/docs/stable/generated/torch.set_float32_matmul_precision.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.techniques.base import Numerics, Stage, Technique, only_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotloop.core.plan import Value
    from hotloop.machine.onednn_matmul import Products
    from hotloop.session.session import TechniqueTarget
    from hotloop.techniques.base import Paired

__all__ = ["TECHNIQUE"]

ID = "matmul-onednn"
_TO = "medium"
LARGEST_ERROR = 1e-6  # relative; MKL's is 2.4e-7 at this size, that of bf16 inputs 2e-3
LEAST_RATE = 1.1  # ratio to before; medians of ratios vary by some percent on a busy machine


def _exact(products: Products) -> bool:
    return products.relative_error <= LARGEST_ERROR and not products.same_bits


def settle(paired: Paired, *, rate: str = "measured") -> Mapping[str, Value]:
    """Return rate=higher or rate=lower, measured on the run's first micro batches; see `Paired`."""
    import torch

    from hotloop.machine.onednn_matmul import compare_products

    if rate != "measured":
        return {"rate": rate}
    if not _exact(compare_products()):
        return {"rate": "lower"}  # nothing would change, so spend no steps on it
    before = torch.get_float32_matmul_precision()

    def at(precision: str) -> Callable[[], None]:
        return lambda: torch.set_float32_matmul_precision(precision)

    try:
        ratio = paired(at("medium"), at("highest"))
    finally:
        torch.set_float32_matmul_precision(before)
    return {"rate": "higher" if ratio is not None and ratio >= LEAST_RATE else "lower"}


def apply(session: TechniqueTarget, *, rate: str = "measured") -> int:
    """Set the process's switch if products are as exact as before, and faster; return 1 or 0."""
    from hotloop.machine.float32_precision import precision
    from hotloop.machine.onednn_matmul import compare_products
    from hotloop.techniques.on_scripts.float32_switches import turn

    if precision() is None:  # the script mixed the APIs: no comparison possible
        return turn(session, ID, _TO)  # which says so
    return switch(session, compare_products(), rate=rate)


def switch(session: TechniqueTarget, products: Products, *, rate: str = "measured") -> int:
    """Apply the technique, based on the measured `products`; return 1 or 0."""
    faster = rate == "higher" or (rate == "measured" and products.rate >= LEAST_RATE)
    if not faster or not _exact(products):
        return 0
    from hotloop.techniques.on_scripts.float32_switches import turn

    return turn(session, ID, _TO)


def read_back(session: TechniqueTarget) -> str | None:
    """Read torch's switch, and describe the measured error and rate."""
    from hotloop.machine.onednn_matmul import compare_products
    from hotloop.techniques.on_scripts.float32_switches import in_effect

    if not in_effect(session, ID, _TO):
        return None
    products = compare_products()
    return (
        f"oneDNN, relative error {products.relative_error:.0e}, "
        f"{products.rate:.1f}x the rate of before"
    )


TECHNIQUE = Technique(
    id=ID,
    title="oneDNN matrix products",
    stage=Stage.PROCESS,
    numerics=Numerics.ROUNDING,
    tolerance=3e-6,  # emulated 2.2e-7
    cosine=1 - 1e-10,  # emulated 1 - 8.6e-14
    blocked=only_on("cpu", "oneDNN multiplies on CPUs"),
    apply=apply,
    read_back=read_back,
    choices={"rate": ("measured", "higher", "lower")},
    tried={"rate": "higher"},
    nothing="torch's float32 products do not become faster through oneDNN here, or not as exact",
    excludes=frozenset({"tf32"}),
    settle=settle,
)
