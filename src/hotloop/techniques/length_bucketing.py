"""Length bucketing: a batch holds samples of like length, so that little of it is padding.

What: keeps the order that the script's sampler draws, but sorts 50 batches at a time by length (a
    quarter of the epoch at most), cuts them into batches and has these come in a random order.
    Batches are as many and as large as before, and each sample comes once an epoch. Where the
    script pads all rows to one width, batches are cut as dynamic-padding cuts them. Lengths are
    read in a copy of the process before the first epoch if that takes 2 s or less or the loader has
    workers, else learned in the first epoch and used from the second on; lengths=read and
    lengths=learn ask for one of them.
Helps when: rows differ in length and batches are as wide as their longest row, or have an
    attention_mask that says how much of them is padding.
Does not help when: rows are of one length, or packed; the time of a step does not go by the width
    of its batch. Refused where the order has a meaning: no plain random sampler, batches of the
    script's own making, an iterable data set.
Numbers: equivalent: every sample once an epoch, in another order and other company. Losses of
    single steps scatter more, because short and long samples no longer come together; a language
    model may learn less in the same steps.
Measured: examples/slow/hf/pad_to_max, CPU time of its 164 steps: 3.6 s (3.4 to 3.9), with
    dynamic-padding alone 11.0 s, as it is 23.0 s (medians, n 3, by turns; one core of an Intel Xeon
    that other processes used as well, torch 2.13). It learned as much in an epoch, as far as can be
    told: loss on the test set +0.007 (standard error 0.011) against random batches, n 12 seeds.
    A small language model that learned answers lost by it: validation loss 3.79 (deviation 0.12)
    after one epoch of text2cypher, in random order 3.64 (0.01), three seeds (docs/defaults.md).
Source: https://huggingface.co/docs/transformers/main_classes/trainer (group_by_length, 2026-11)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide
from hotloop.techniques.base import HostKind, Numerics, Stage, Technique
from hotloop.techniques.dynamic_padding import narrow, trimmed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from hotloop.observe.probes.lengths import Looked
    from hotloop.session.session import ScriptSession
    from hotloop.techniques.on_scripts.bucketing import Gain

    Divide = Callable[[NDArray[np.int32], int], Iterator[NDArray[np.int64]]]

__all__ = ["CHOICES", "TECHNIQUE", "Divide", "apply_batches", "look_at", "multiple_of"]

ID = "length-bucketing"
CHOICES = ("auto", "read", "learn")  # of `lengths`
WORTH = 0.02  # least fraction of the positions to save; less is not worth a different order


def apply(session: ScriptSession, *, lengths: str = "auto") -> int:
    """Change a loader if its batches get narrower; return 1 if it changed, else 0."""
    from hotloop.techniques.on_scripts.bucketing import by_count

    looked = look_at(session, lengths)
    return 0 if looked is None else apply_batches(session, ID, looked, by_count, "sorted by length")


def look_at(session: ScriptSession, lengths: str) -> Looked | None:
    """Read from a loader in a copy of the process; None if `session.refused` says why not."""
    from hotloop.observe.probes.lengths import look

    loader = session.loader
    session.refused = _unfit(loader)
    if session.refused is not None:
        return None
    looked = look(loader, trimmed=trimmed, limit=_limit(loader, lengths))
    session.refused = looked if isinstance(looked, str) else _why_not(looked, loader)
    return None if session.refused is not None or isinstance(looked, str) else looked


def _limit(loader: Any, lengths: str) -> float:
    """Return the seconds that reading all lengths may take.

    An explicit choice of a plan has no limit, so that a busier machine does what was proved.
    """
    from hotloop.observe.probes.lengths import READING

    if lengths == "learn":
        return 0.0
    return math.inf if lengths == "read" or loader.num_workers else READING


def apply_batches(
    session: ScriptSession, id: str, looked: Looked, divide: Divide, words: str
) -> int:
    """Make a loader read the batches of `divide`, described by `words`; return 1 if it pays."""
    from hotloop.observe.probes.lengths import SampleLengths
    from hotloop.techniques.on_scripts.bucketing import Gain
    from hotloop.techniques.on_scripts.rebatching import Rebatched

    batches, known = session.loader.batch_sampler, looked.lengths
    trims = looked.narrower == "cut" and "dynamic-padding" not in session.facts
    if known is None:
        session.facts[id] = f"batches are {words} from the second epoch on: the first one learns"
    else:
        gain = Gain.of(known, batches.batch_size, divide, multiple=multiple_of(looked))
        session.refused = _too_little(gain, words)
        session.facts[id] = _words(gain, words, looked, width=looked.width if trims else None)
    if session.refused is not None:
        return 0
    learns, troubles = known is None, session.troubles[id]
    unknown = SampleLengths.unknown(len(session.loader.dataset))
    lengths = unknown if known is None else SampleLengths(known)
    feed = Rebatched(lengths, divide, learns=learns, troubles=troubles)
    # First, because the other changes depend on what the sampler yields.
    session.loader_changes = {id: feed, **session.loader_changes}
    if trims:
        narrow(session, id, ended=feed.stop)
    return 1


def multiple_of(looked: Looked) -> int:
    """Return the number of which the widths of a loader's batches are multiples; 1 if unknown."""
    from hotloop.techniques.on_scripts.narrower_batches import MULTIPLE

    return MULTIPLE if looked.narrower == "cut" else 1


def _unfit(loader: Any) -> str | None:
    """Return why the order of this loader must not be changed, or None."""
    from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SubsetRandomSampler

    if isinstance(loader.dataset, IterableDataset):
        return "an iterable data set has no samples by index"
    if not loader._auto_collation:
        return "the data set makes its batches itself"
    if type(loader.batch_sampler) is not BatchSampler:
        return f"its {type(loader.batch_sampler).__name__} makes the batches"
    sampler = loader.batch_sampler.sampler
    ours = type(sampler).__module__.startswith("accelerate.") and isinstance(sampler, RandomSampler)
    if type(sampler) not in (RandomSampler, SubsetRandomSampler) and not ours:
        return f"the order of a {type(sampler).__name__} may have a meaning"
    if getattr(sampler, "replacement", False):
        return "its sampler draws samples more than once"
    if loader.batch_sampler.batch_size < 2:
        return "a batch of one sample has no padding"
    if len(loader.batch_sampler) < 2:
        return "an epoch is a single batch"
    return None


def _why_not(looked: Looked, loader: Any) -> str | None:
    if looked.why_not is not None:
        return looked.why_not
    if looked.narrower == "no":
        return "a batch of short samples is as wide as one of long samples, and cannot be cut"
    if looked.lengths is None and loader.num_workers:
        return "its worker processes would learn the lengths"
    return None


def _too_little(gain: Gain, words: str) -> str | None:
    """Return why the new batches save too little, or None if they save enough."""
    if gain.after <= (1 - WORTH) * gain.before:
        return None
    return (
        f"rows are of like length already: {1 - gain.real / gain.before:.1%} of random batches is "
        f"padding, and {1 - gain.real / gain.after:.1%} of batches {words}"
    )


def _words(gain: Gain, words: str, looked: Looked, *, width: int | None) -> str:
    """Describe the gain; `width` is the width [columns] before cutting, None if nothing is cut."""
    from hotloop.techniques.on_scripts.narrower_batches import MULTIPLE

    before = gain.before if width is None else gain.samples * width
    cut = f" and cut to a multiple of {MULTIPLE} columns" if width is not None else ""
    return (
        f"batches are {words}{cut}: {1 - gain.real / gain.after:.0%} of them is padding, "
        f"{1 - gain.real / before:.0%} before (by {gain.samples:,} lengths, read in "
        f"{looked.seconds:.1f} s)"
    )


def read_back(session: ScriptSession) -> str | None:
    """Describe the change if it is in place."""
    return session.facts[ID] if ID in session.loader_changes else None


TECHNIQUE = Technique(
    id=ID,
    title="Length bucketing",
    stage=Stage.LOADER,
    numerics=Numerics.EQUIVALENT,
    apply=apply,
    read_back=read_back,
    choices={"lengths": CHOICES},
    nothing="the batches are of like length already",
    excludes=frozenset({"token-budget", "vectorised-reads"}),
    hosts=frozenset({HostKind.SCRIPT}),
)


hide(globals())
