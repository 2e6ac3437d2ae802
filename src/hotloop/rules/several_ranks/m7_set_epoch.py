"""The distributed sampler is never told the epoch, so each epoch has the same order of samples.

Looks at: distributed samplers, how often their loader was started, and calls of set_epoch.
Says so when: a shuffling one was started more than once and set_epoch was never called.
Stays silent when: it is called, the order is meant to be fixed, or a framework calls it.
Remedy: sampler.set_epoch(epoch) at the start of each epoch.
Numbers: training; the order changes from epoch to epoch, as it should.
Seen: examples/planted/parallel_defaults.py.
Source: https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Count epochs and calls."""
    for loader in case.training_loaders:
        shuffles = "Distributed" in loader.sampler and loader.shuffle is not False
        if shuffles and loader.set_epoch == 0 and loader.iterations > 1:
            return Finding(
                claim=f"{loader.iterations} epochs in the same order: the distributed sampler is "
                "never told the epoch",
                severity="critical",
                places=[loader.place] if loader.place else [],
                remedies=[code_edit("sampler.set_epoch(epoch) at the start of each epoch")],
            )
    return None


RULE = Rule(
    title="Each epoch has the same order",
    judge=judge,
    needs=(Needs.LOADER, Needs.RANKS),
    weight=2,
    numerics="training",
    kind="correctness",
    known="proved",
)
