"""DistributedDataParallel keeps a second copy of all gradients.

Looks at: where the model is wrapped.
Says so when: gradient_as_bucket_view is not given: a note.
Stays silent when: it is. static_graph=True helps as well, where each step uses the same parameters.
Remedy: DistributedDataParallel(model, gradient_as_bucket_view=True).
Numbers: bitwise the same.
Seen: examples/planted/parallel_defaults.py.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.syntax import keyword, parse

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Look for the argument."""
    places = [
        module.place(call)
        for module, call in parse(case.sources).calls("DistributedDataParallel", "DDP")
        if keyword(call, "gradient_as_bucket_view") is None
    ]
    if not places:
        return None
    size = sum(4 * model.trainable for model in case.models)  # float32 gradients
    return Finding(
        claim=f"DistributedDataParallel keeps a second copy of all gradients, {bytes_(size)}",
        severity="note",
        places=places,
        remedies=[Remedy(text="DistributedDataParallel(model, gradient_as_bucket_view=True)")],
    )


RULE = Rule(
    title="DDP copies gradients it could share",
    judge=judge,
    needs=(Needs.MODEL, Needs.CODE, Needs.RANKS),
    numerics="bitwise",
    known="read",
)
