"""cuDNN picks convolution algorithms unmeasured though shapes never change, or measures them anew
for each of many shapes.

Looks at: cudnn.benchmark, the convolutions, and the shapes of sampled batches; the profile.
Says so when: it is off, batches have one shape, and convolutions are 20 % of a step by --profile
    (a note without it); or it is on and more than 10 shapes were seen.
Stays silent when: there is no convolution (G33 says that the switch does nothing then).
Remedy: torch.backends.cudnn.benchmark = True, or False.
Numbers: rounding; another algorithm sums in another order, and may be another in the next process.
Seen: examples/gpu/fed_pictures.py on an H200.
Source: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html; gains of 10-20 % that
    are often claimed for models without convolutions do not exist.
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule

__all__ = ["RULE"]

LEAST, MANY = 0.20, 10  # of a step; shapes


def judge(case: Case) -> Finding | None:
    """Compare the switch with the shapes."""
    switch = case.process.switches.get("cudnn.benchmark")
    shapes = max((b.variety for b in case.batches if b.variety), default=None)
    if not any(model.convolutions for model in case.models) or None in (switch, shapes):
        return None
    assert shapes is not None
    convolutions = sum(op.share for op in case.operators if "convolution" in op.name)
    if switch == "True" and shapes > MANY:
        claim = f"cudnn.benchmark is on, and each of {shapes} shapes or more is timed anew"
        text = "torch.backends.cudnn.benchmark = False, or fewer shapes"
    elif switch == "False" and shapes == 1 and (not case.profiled or convolutions >= LEAST):
        claim = "convolutions see one shape all the time, and cudnn.benchmark is off"
        text = "torch.backends.cudnn.benchmark = True"
    else:
        return None
    return Finding(
        claim=claim,
        severity="warn" if case.profiled or switch == "True" else "note",
        evidence={"convolutions": f"{convolutions:.0%} of a step"} if case.profiled else {},
        remedies=[Remedy(text=text, technique="cudnn-benchmark")],
    )


RULE = Rule(
    title="cuDNN's search is off where it would help, or on where it costs",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.BATCHES, Needs.GPU),
    under="G25",
    numerics="rounding",
    known="proved",
)
