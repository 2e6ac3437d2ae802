"""nn.DataParallel drives all GPUs from one process and copies the model at each step.

Looks at: how the model is wrapped.
Says so when: it is a DataParallel and there is more than one GPU.
Stays silent when: there is one GPU, or DistributedDataParallel.
Remedy: DistributedDataParallel, one process a GPU, by torchrun.
Numbers: training; batch norm and the order of samples differ.
Seen: golden cases only; not yet seen on a GPU.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html (its warning)
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Look at the wrapper."""
    model = next((model for model in case.models if model.wrapped == "DataParallel"), None)
    if model is None or case.hardware.count < 2:
        return None
    return Finding(
        claim=f"nn.DataParallel drives {case.hardware.count} GPUs from one process",
        severity="warn",
        places=[model.place] if model.place else [],
        remedies=[
            code_edit(
                "DistributedDataParallel, started by torchrun --nproc-per-node "
                f"{case.hardware.count}"
            )
        ],
    )


RULE = Rule(
    title="DataParallel where DistributedDataParallel is meant",
    judge=judge,
    needs=(Needs.MODEL, Needs.GPU),
    weight=2,
    numerics="training",
    known="proved",
)
