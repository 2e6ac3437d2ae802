"""Sample cache: what reading a sample gave in one epoch is kept for the next.

What: keeps dataset[i] in memory, up to `percent` of the machine's, and gives copies of it out. Once
    the loop has left the tensors of a whole epoch as they were it is given those that are kept; one
    that it changes all the same says so by its version and is read anew.
Helps when: the same deterministic work is done in every epoch: decoding, tokenising, parsing.
Does not help when: samples differ from epoch to epoch (augmentation), are views of tensors that
    lie in memory, or do not fit into it: it is refused there. Each worker process would keep its
    own. What it gains is measured by hotloop tune; no time of a read decides whether it is used.
Numbers: bitwise the same: samples are read twice in a copy of the process first, and must be equal
    and draw from no generator. Of the first epoch from memory 8 samples and one in 128 are read
    again and compared, of each later one 1 and one in 1,024; the first difference ends the cache
    and is said. A data set that the script changes between epochs is read anew.
Measured: a classifier that tokenises in __getitem__ (examples/slow/slow_getitem), 6 epochs: 7.5
    and 5.5 s of training against 11.9 and 14.3 (n 2, in turns; 2 cores of an AMD EPYC that other
    processes used as well, torch 2.13).
Source: https://docs.pytorch.org/docs/stable/data.html#map-style-datasets (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide
from hotloop.techniques.base import HostKind, Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.observe.probes.dataset_trial import Tried
    from hotloop.session.session import ScriptSession
    from hotloop.techniques.on_scripts.dataset_cache import SampleCache

__all__ = ["TECHNIQUE"]

ID = "sample-cache"


class _Kept:
    """Installs the cache in each new iterator; a `session.LoaderChange`."""

    def __init__(self, cache: SampleCache) -> None:
        self._cache = cache

    def on_iterator_requested(self, loader: Any) -> None:
        """Start an epoch of the cache."""
        self._cache.begin(loader.dataset)

    def on_iterator_created(self, iterator: Any) -> None:
        """Make the iterator read through the cache."""
        from hotloop.techniques.on_scripts.dataset_cache import CachedReads

        iterator._dataset = CachedReads(iterator._dataset, self._cache)


def apply(session: ScriptSession, *, percent: int = 25) -> int:
    """Give a loader a cache if its samples never change; return 1 if it did, else 0."""
    from hotloop.observe.probes.dataset_trial import try_reading
    from hotloop.techniques.on_scripts.dataset_cache import SampleCache

    loader, memory = session.loader, session.hardware.host_memory_bytes
    limit = (memory or 0) * percent // 100
    session.refused = _unfit(loader)
    if session.refused is None:
        tried = try_reading(loader)
        session.refused = tried if isinstance(tried, str) else _why_not(tried, loader, limit)
    if session.refused is not None:
        return 0
    cache = SampleCache(limit, session.troubles[ID])
    session.loader_changes[ID] = _Kept(cache)
    session.facts[ID] = cache
    return 1


def _unfit(loader: Any) -> str | None:
    from torch.utils.data import IterableDataset

    if isinstance(loader.dataset, IterableDataset):
        return "an iterable data set has no samples by index"
    if loader.num_workers:
        return f"each of the {loader.num_workers} worker processes would keep its own"
    if hasattr(loader.dataset, "__getitems__"):
        return "the data set reads whole batches at once (__getitems__)"
    return None


def _why_not(tried: Tried, loader: Any, limit: int) -> str | None:
    if tried.moved:
        return f"reading samples draws from {', '.join(tried.moved)}: each epoch has its own"
    if not tried.equal:
        return "a sample that is read twice is not the same"
    if tried.views:
        return "its samples are views of tensors that lie in memory: there is nothing to keep"
    need = len(loader.dataset) * (tried.sample_bytes + 512)
    if need > limit:
        return f"about {need / 1e9:.1f} GB of samples do not fit into {limit / 1e9:.1f} GB"
    return None


def read_back(session: ScriptSession) -> str | None:
    """Describe the cache if there is one."""
    cache = session.facts.get(ID)
    return f"samples are kept, {cache.limit / 1e9:.1f} GB at most" if cache else None


TECHNIQUE = Technique(
    id=ID,
    title="Sample cache",
    stage=Stage.LOADER,
    numerics=Numerics.BITWISE,
    apply=apply,
    read_back=read_back,
    choices={"percent": (25, 10, 50)},
    pays_from=2,
    nothing="the samples are kept already",
    excludes=frozenset({"loader-workers", "vectorised-reads"}),
    hosts=frozenset({HostKind.SCRIPT}),
)


hide(globals())
