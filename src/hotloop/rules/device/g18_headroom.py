"""Much of the GPU's memory is free, and micro batches are small.

Looks at: the peak of memory, accumulation, and whether the GPU waits for the host.
Says so when: the peak is below 60 % of the GPU, and steps are made of several micro batches (half
    as many, twice as large, must fit), or the GPU is done before the host. Before a run: by the
    forecast of the memory, with half of that share.
Stays silent when: memory is used, or neither would gain.
Remedy: a larger micro batch with less accumulation; the batch stays.
Numbers: rounding (2e-7) at constant batch without batch norm and dropout; else training.
Seen: examples/gpu/fed_pictures.py on an H200.
Source: SageMaker and DLProf; 60 % is hotloop's.
"""

from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Remedy, Rule

__all__ = ["RULE"]

ROOM, FULL = 0.60, 0.92  # of the GPU memory; as in G16
STARVED = 0.80  # of the steps, as in H1


def judge(case: Case) -> Finding | None:
    """Look for free memory, and for a use of it."""
    peak, memory = case.process.allocator.get("peak"), case.hardware.memory_bytes
    if not peak or not memory or peak >= ROOM * memory:
        return None
    backwards = round(case.steps.backwards or 1)
    starved = (case.steps.starved or 0.0) >= STARVED
    if not starved and (backwards < 2 or 2 * peak >= FULL * memory):
        return None
    same = any(model.normalised or model.dropout for model in case.models)
    claim = f"{peak / memory:.0%} of the GPU's memory is used"
    remedies = [Remedy(text="a larger batch is another training run: compare the losses")]
    if backwards > 1:
        claim += f", and {backwards} micro batches make a step"
        text = f"twice the micro batch, accumulation {max(1, backwards // 2)}: the batch stays"
        remedies.insert(0, Remedy(text=text))
    return Finding(
        claim=claim,
        severity="note",
        evidence={"batch norm or dropout": "the numbers change with the micro batch"}
        if same
        else {},
        remedies=remedies,
    )


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    memory, run, have = planned.memory, planned.settings, case.hardware.memory_bytes
    if memory is None or run is None or case.hardware.device != "cuda" or not have:
        return None
    share = memory.peak_bytes / have
    if (
        run.accumulation == 1 or share >= ROOM / 2
    ):  # half as many micro batches need up to twice the memory
        return None
    return Finding(
        claim=f"{run.accumulation} micro batches make a step, and one takes {share:.0%} of the "
        "memory: fewer, larger ones keep the GPU busier",
        severity="note",
        evidence={"memory": memory.sentence},
        remedies=[Remedy(text=f"training.accumulation={run.accumulation // 2}, the batch stays")],
    )


RULE = Rule(
    title="The GPU could take larger micro batches",
    judge=judge,
    needs=(Needs.STEPS, Needs.GPU),
    before_run=_before_run,
    numerics="training",
)
