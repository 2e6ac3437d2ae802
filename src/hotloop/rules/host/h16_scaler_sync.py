"""A GradScaler works on bfloat16 gradients, which need none, and waits for the GPU at every step.

Looks at: enabled gradient scalers and the dtype of autocast.
Says so when: a scaler scaled losses, and autocast is bfloat16.
Stays silent when: autocast is float16, the scaler is disabled, or the run is on the CPU (S6 speaks
    of misuse there; no wait is lost).
Remedy: leave the scaler out: bfloat16 has the range of float32.
Numbers: rounding; scaling by a power of two and back changes only what underflows.
Seen: golden cases only; not yet seen on a GPU.
Source: https://docs.pytorch.org/docs/stable/amp.html; one of the five projects did so.
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Compare each scaler with autocast's dtype."""
    scalers = [
        scaler
        for scaler in case.scalers
        if scaler.enabled and scaler.scaled and (scaler.autocast or "") in ("bfloat16", "bf16")
    ]
    if not scalers:
        return None
    return Finding(
        claim="a GradScaler is used with bfloat16, which needs none; it makes the host wait for "
        "the GPU at every step",
        severity="note",
        places=[scaler.place for scaler in scalers if scaler.place],
        remedies=[code_edit("GradScaler(enabled=False), or take it out")],
    )


RULE = Rule(
    title="A gradient scaler waits for the GPU for nothing",
    judge=judge,
    needs=(Needs.STEPS, Needs.GPU),
    weight=2,
    numerics="rounding",
    known="proved",
    by_host=True,
)
