"""Matrix products run in full float32, and the GPU's tensor cores stand still.

Looks at: the dtype of the products, the TF32 switch, the GPU's capability, experiments with TF32
    and with autocast, and the profile.
Says so when: the GPU has TF32 (capability 8.0), it is off, the model computes in float32, and steps
    with TF32 or under autocast were measured to be faster. Without an experiment a note; with
    --profile, when products are 20 % of the step.
Stays silent when: autocast or TF32 is on, the GPU is older, or products take little time.
Remedy: autocast to bfloat16, or TF32.
Numbers: rounding; TF32 keeps 10 bits of mantissa in the inputs of products, bfloat16 7.
Seen: examples/gpu/float32_products.py on an H200.
Source: the TensorBoard profiler plugin and DLProf (tensor cores eligible and unused); peaks by GPU
    in hotloop/core/gpu_specs.py.
"""

from typing import Any

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, option
from hotloop.rules.support.costs import costing, in_steps, products

__all__ = ["RULE", "full_float32"]

LEAST = 0.20  # of the step
SWITCH = "cuda.matmul.fp32_precision"
REMEDIES = (
    option("products in bfloat16, under autocast", technique="autocast-bf16"),
    Remedy(text='torch.set_float32_matmul_precision("high") uses TF32', technique="tf32"),
)


def full_float32(case: Case) -> bool:
    """Whether a model trains on a GPU in full float32, which has a faster format for products."""
    if case.hardware.why_no_tf32() is not None or case.process.autocast:
        return False
    if case.process.switches.get(SWITCH) in (None, "tf32"):
        return False
    return any(m.role == "train" and m.compute in (None, "float32") for m in case.models)


def judge(case: Case) -> Finding | None:
    """Look for float32 products, and compare the GPU's peaks."""
    hardware = case.hardware
    if not full_float32(case):
        return None
    peaks = hardware.gpu.flops if hardware.gpu else {}
    faster = peaks["bf16"] / peaks["fp32"] if {"bf16", "fp32"} <= peaks.keys() else None
    fields: dict[str, Any] = {
        "claim": "matrix products run in full float32: the tensor cores stand still",
        "evidence": {"peaks": f"bf16 {faster:.1f} times float32"} if faster else {},
        "remedies": REMEDIES,
    }
    if not case.profiled:
        return Finding(**fields, severity="note")
    share = sum(op.share for op in products(case) if op.dtype in (None, "float32"))
    if share < LEAST:
        return None
    return costing(
        case, in_steps(case, share * (1 - 1 / (faster or 2.0))), known="measured", **fields
    )


RULE = Rule(
    title="Matrix products leave the tensor cores unused",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.GPU),
    under="G25",
    numerics="rounding",
    known="proved",
    experiment="autocast",
)
