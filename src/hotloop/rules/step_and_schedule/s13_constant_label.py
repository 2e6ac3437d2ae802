"""All labels of the training batches are the same.

Looks at: the labels of the sampled training batches.
Says so when: 32 labels or more from at least two batches have one and the same value. It is a
    note, as nobody looked whether the loss reads them: an autoencoder or a GAN on one folder of
    images does not, and a contrastive loss has one constant target.
Stays silent when: there are two values or more, or too few were seen.
Remedy: look at how labels are read; shuffle where the data are sorted by label.
Numbers: the run changes: a model learns nothing from it but that value.
Seen: examples/planted/one_class.py.
Source: hotloop, from the five projects; with two classes in balance, 32 equal labels come by chance
    once in 2 thousand million batches of 32.
"""

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, code_edit

__all__ = ["RULE"]

FEWEST = 32  # labels
BATCHES = 2


def judge(case: Case) -> Finding | None:
    """Count the values."""
    loaders = {loader.key: loader for loader in case.loaders}
    for batches in case.batches:
        count = sum(batches.labels.values())
        if batches.role != "train" or len(batches.labels) != 1 or count < FEWEST:
            continue
        if batches.sampled < BATCHES:
            continue
        loader = loaders.get(batches.loader) if batches.loader is not None else None
        place = batches.place or (loader.place if loader else None)
        value, name = next(iter(batches.labels)), batches.label or "label"
        name = f"field {name} of the batch" if name.isdigit() else name
        sorted_data = Remedy(text="shuffle=True: the data may be sorted by label")
        return Finding(
            claim=f"all {count} labels of {batches.sampled} training batches are {value} ({name})",
            severity="note",
            places=[place] if place else [],
            remedies=[
                *([sorted_data] if loader and loader.shuffle is False else []),
                code_edit("look at how the labels are read"),
            ],
        )
    return None


RULE = Rule(
    title="A constant label",
    judge=judge,
    needs=(Needs.BATCHES,),
    weight=2,
    numerics="training",
    kind="correctness",
    known="proved",
)
