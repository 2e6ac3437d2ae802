"""GPUs exchange gradients through a back end that is not NCCL.

Looks at: the back end of torch.distributed.
Says so when: several processes train on GPUs and it is another one than NCCL. Of a run of hotloop
    train its record says whether it trained on GPUs.
Stays silent when: it is NCCL, or the run is on CPUs, where gloo is right.
Remedy: torch.distributed.init_process_group("nccl"); for hotloop train a PyTorch that has NCCL,
    and no more processes than GPUs.
Numbers: rounding; sums are formed in another order.
Seen: golden cases only; not yet seen on a GPU.
Source: https://docs.pytorch.org/docs/stable/distributed.html ("Which backend to use?")
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Look at the backend."""
    backend = (case.process.backend or "").lower()
    recorded = (
        case.by_hotloop and case.hardware.device == "cuda"
    )  # the record of a run contains no models
    if not backend or "nccl" in backend or not (case.on_gpu or recorded):
        return None
    return Finding(
        claim=f"{case.process.world} processes on GPUs exchange gradients by {backend}",
        severity="warn",
        remedies=[
            Remedy(text="a PyTorch that has NCCL, and no more processes on a machine than GPUs")
            if case.by_hotloop
            else Remedy(text='init_process_group("nccl")')
        ],
    )


RULE = Rule(
    title="GPUs talk through the hosts' network stack",
    judge=judge,
    needs=(Needs.RANKS,),
    weight=2,
    numerics="rounding",
    known="proved",
)
