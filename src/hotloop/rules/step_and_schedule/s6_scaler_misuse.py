"""A gradient scaler or autocast that is not used as it works.

Looks at: each GradScaler's calls, autocast as it was entered, and the code that clips.
Says so when: losses are scaled but the optimizer is stepped past the scaler; gradients are clipped
    without unscale_; a scaler is built and never used, or used with bfloat16, which needs none;
    the backward pass runs under autocast; autocast is asked for on "cuda" in a run without a GPU.
Stays silent when: the scaler is disabled, or all calls are made.
Remedy: scale, unscale_, clip, scaler.step, scaler.update; and none of it for bfloat16.
Numbers: the run changes where gradients had the wrong scale; without the scaler of a bfloat16 run
    only rounding does.
Seen: examples/planted/clipped_scaled.py.
Source: PyTorch, "Automatic Mixed Precision examples",
    https://docs.pytorch.org/docs/stable/notes/amp_examples.html (2026-11); three of the five
    projects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.rules.base import (
    Case,
    Finding,
    Known,
    Needs,
    Rule,
    Severity,
    SourceLocation,
    code_edit,
)
from hotloop.rules.support.executed import was_executed
from hotloop.rules.support.syntax import calls, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.objects import Scaler

__all__ = ["RULE"]

Fault = tuple[Severity, str, SourceLocation | None, str, Known]


def judge(case: Case) -> Finding | None:
    """Report the first fault; the others are its evidence."""
    faults = [fault for scaler in case.scalers if scaler.enabled for fault in _scaler(case, scaler)]
    faults += _autocast(case)
    if not faults:
        return None
    severity, claim, place, remedy, known = faults[0]
    return Finding(
        claim=claim,
        severity=severity,
        known=known,
        places=[place] if place else [],
        evidence={f"also {n}": other for n, (_, other, *_) in enumerate(faults[1:], 1)},
        remedies=[code_edit(remedy)],
    )


def _scaler(case: Case, scaler: Scaler) -> Iterator[Fault]:
    clip = _clip(case)
    if scaler.scaled and not scaler.steps and case.steps.how == "optimizer":
        times = f"{scaler.scale:g} times" if scaler.scale else "many times"
        yield (
            "critical",
            f"the loss is scaled, but the optimizer steps past the scaler: gradients are {times} "
            "too large",
            scaler.place,
            "scaler.step(optimizer); scaler.update()",
            "proved",
        )
    elif scaler.steps and not scaler.unscaled and clip:
        yield (
            "warn",
            "gradients are clipped while they are still scaled, so the limit is far too low",
            clip.place,
            "scaler.unscale_(optimizer) before clipping",
            "proved" if clip.ran else "read",
        )
    if not scaler.scaled and not scaler.steps:
        yield (
            "warn",
            "a gradient scaler is built and never used",
            scaler.place,
            "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()",
            "proved",
        )
    elif scaler.autocast == "bfloat16":
        yield (
            "note",
            "a gradient scaler is used with bfloat16, which has float32's range and needs none",
            scaler.place,
            "leave the scaler out",
            "proved",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipCall:
    """A call that clips gradients."""

    place: SourceLocation
    ran: bool  # it was certainly executed


def _clip(case: Case) -> ClipCall | None:
    """Return where a training loop clips gradients with torch's own function, or None."""
    code = parse(case.sources)
    for loop in code.loops:
        for call in calls(loop.nodes(), "clip_grad_norm_", "clip_grad_value_"):
            module = code.module_of(call)
            # Wrappers such as accelerator.clip_grad_norm_ unscale by themselves.
            if module.name(call).startswith(("torch.", "nn.", "clip_grad")):
                return ClipCall(place=module.place(call), ran=was_executed(case, module, call))
    return None


def _autocast(case: Case) -> Iterator[Fault]:
    if case.process.backward_in_autocast:
        yield (
            "note",
            "the backward pass runs under autocast, which PyTorch advises against",
            None,
            "leave autocast before loss.backward()",
            "proved",
        )
    if case.hardware.device == "cpu" and any(
        entered.startswith("cuda") for entered in case.process.autocast
    ):
        yield (
            "note",
            'autocast("cuda") has no effect in this run, which has no GPU',
            None,
            'torch.autocast(device.type) in place of "cuda"',
            "proved",
        )


RULE = Rule(
    title="A gradient scaler used wrongly",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=2,
    numerics="training",
    kind="correctness",
    known="proved",
)
