"""Convolutions read images that lie in memory plane by plane.

Looks at: the layout of the convolutions' weights, the dtype of computation, and the profile's
    kernels that turn one layout into the other.
Says so when: 16-bit convolutions are not in channels_last: a note; with --profile when turning
    layouts takes 5 % of a step; and when an experiment measured a gain by channels_last.
Stays silent when: there is no convolution, the layout is channels_last, or it computes in float32
    and no experiment measured a gain.
Remedy: model.to(memory_format=torch.channels_last), and the batch as well.
Numbers: rounding.
Seen: examples/planted/planes.py; on an H200 examples/gpu/float32_pictures.py.
Source: https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html
"""

from typing import Any

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit, option
from hotloop.rules.support.costs import costing, in_steps
from hotloop.rules.support.device_moves import where_converted

__all__ = ["RULE"]

LEAST = 0.05  # of a step
TURNING = ("nchwtonhwc", "nhwctonchw", "nchw_to_nhwc", "nhwc_to_nchw")
REMEDIES = (
    option("the layout that tensor cores read", technique="channels-last"),
    code_edit("model.to(memory_format=torch.channels_last), the batch too"),
)


def judge(case: Case) -> Finding | None:
    """Look at the layout, and at the cost of converting it."""
    if (found := _measured(case)) is not None or not case.on_gpu:
        return found
    model = next(
        (
            model
            for model in case.models
            if model.convolutions
            and model.channels_last is False
            and model.compute in ("bfloat16", "float16")
        ),
        None,
    )
    if model is None:
        return None
    fields: dict[str, Any] = {
        "claim": f"{model.convolutions} convolutions run in 16 bit without channels_last",
        "places": where_converted(case, model),
        "remedies": REMEDIES,
    }
    if not case.profiled:
        return Finding(**fields, severity="note")
    turning = [op for op in case.operators if any(part in op.name.lower() for part in TURNING)]
    share = sum(op.share for op in turning)
    if share < LEAST:
        return None
    return costing(case, in_steps(case, share), known="measured", **fields)


def _measured(case: Case) -> Finding | None:
    """Say that the other layout is faster on this processor, if that was measured."""
    tried = (one for one in case.experiments if one.name == "channels last")
    model = next((one for one in case.models if one.convolutions), None)
    if model is None or not any(one.outcome == "gain" for one in tried):
        return None
    return Finding(
        claim=f"{model.convolutions} convolutions run without channels_last",
        severity="note",
        places=where_converted(case, model),
        remedies=REMEDIES,
    )


RULE = Rule(
    title="Convolutions run in the layout tensor cores do not read",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL),
    under="G25",
    experiment="channels last",
    only_measured=True,
    weight=2,
    numerics="rounding",
    known="proved",
)
