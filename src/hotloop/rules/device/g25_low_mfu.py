"""The GPU computes, but reaches little of what it could.

Looks at: the FLOP/s of the steps against the published peak of the dtype in use.
Says so when: it is below 30 %, and the loop waits neither for data nor for the host. It is a note
    without a share: this alone shows nothing that can be avoided.
Stays silent when: the GPU has no published peak, or something else is the limit (D1, H1).
Remedy: what the rules below say: 16 bit, fused attention, compilation, larger micro batches.
Numbers: rounding.
Seen: examples/gpu/clean_transformer.py on an H200.
Source: MFU as in PaLM, appendix B, https://arxiv.org/abs/2204.02311; 30 % is gpuprof's.
"""

from hotloop.rules.base import WARN, Case, Finding, Needs, Rule, option
from hotloop.rules.support.costs import compute_dtype, flop_rate

__all__ = ["RULE"]

LEAST = 0.30  # of the peak
STARVED = 0.80  # of the steps, as in H1


def judge(case: Case) -> Finding | None:
    """Compare the steps with the peak."""
    rate, dtype = flop_rate(case), compute_dtype(case)
    peak = case.hardware.peak_flops(dtype)
    if rate is None or peak is None:
        return None
    waits = case.share("data wait") >= WARN or (case.steps.starved or 0.0) >= STARVED
    reached = rate / peak.median
    if waits or reached >= LEAST:
        return None
    return Finding(
        severity="note",
        claim=f"the steps reach {reached:.0%} of the GPU's {dtype} peak",
        evidence={"peak": peak},
        remedies=[
            option("hotloop doctor --profile shows where the GPU's time goes"),
            option("bfloat16 under autocast, then compilation", technique="autocast-bf16"),
        ],
    )


RULE = Rule(
    title="The GPU reaches little of its peak",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.GPU),
    weight=0,
    numerics="rounding",
)
