"""Each epoch draws the same part of the training rows.

Looks at: the indices that the sampler of a training loader gives in its first two or three whole
    epochs.
Says so when: these epochs have the same batches in the same order, which is not that of the data
    set, and 5 % of the rows or more are in none of them. A note where all rows are drawn.
Stays silent when: an epoch draws other rows or another order, rows are read one after another, or
    an epoch has less than 6 batches.
Remedy: draw from a generator that goes on from epoch to epoch, or seed it with the epoch's number.
Numbers: training: the model sees other rows, in another order.
Seen: examples/planted/same_draw.py; the batch sampler of a public project on spoken words
    (benchmarks/field, speech_lightning): 100 distinct batches in 5 epochs of 100, 161 of 859 files
    never read.
Source: hotloop; set_epoch of
    https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
    exists for this reason.
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.data_wait import place_of

__all__ = ["RULE"]

LEFT_OUT = 0.05  # share of the rows


def judge(case: Case) -> Finding | None:
    """Look for a loader whose epochs are equal."""
    for loader in case.training_loaders:
        if not loader.draws_again or loader.drawn is None or not loader.length:
            continue
        left = 1 - loader.drawn / loader.length
        part = f"the same {loader.drawn:,} of {loader.length:,} rows"
        what = part if left >= LEFT_OUT else "all rows in the same order"
        place = [loader.sampler_place] if loader.sampler_place else place_of(loader)
        return Finding(
            claim=f"each epoch draws {what}: {loader.sampler} begins anew",
            severity="warn" if left >= LEFT_OUT else "note",
            places=place,
            evidence={"epochs compared": f"{loader.epochs_drawn}"},
            remedies=[
                code_edit(
                    "seed the sampler's generator with the epoch, or keep it from epoch to epoch"
                )
            ],
        )
    return None


RULE = Rule(
    title="Each epoch draws the same rows",
    judge=judge,
    needs=(Needs.LOADER,),
    weight=2,
    numerics="training",
    kind="correctness",
    known="proved",
)
