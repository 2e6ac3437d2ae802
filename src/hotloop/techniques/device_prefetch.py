"""Copy the next batch to the GPU while this one is computed.

What: a stream of its own copies the next window from pinned memory; the computing stream waits for
    it on the GPU, not on the host, and torch keeps each pinned buffer until its copy is done. A
    script's loader is read one batch ahead: the loop is given its batch in the host's memory as
    ever, and what it moves by .to(GPU) or .cuda() is there already.
Helps when: batches are large against the computation, as images are, and the copy shows in the
    step: at 25 GB/s over PCIe 4, 100 MB take 4 ms.
Does not help when: batches are token ids: 48 x 256 of them are 200 kB, 8 us. It then costs a second
    window's memory for nothing. On a CPU there is nothing to copy. In a script: what is moved in
    another way, or changed before it is moved, is copied as before.
Numbers: bitwise the same batches in the same order. In a script it is refused where reading draws
    from a generator, changes the data set, or gives memory out that the next batch has too.
Measured: 1.00 times on an H200, where batches of characters are small (char-lm, preset h100, n 6
    intervals each; results/gpu-nvidia-h200.json, torch 2.11).
Source: https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html (2026-11)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.session.session import ScriptSession
from hotloop.techniques.base import Numerics, Stage, Technique, only_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.observe.probes.dataset_trial import Tried
    from hotloop.session.session import Session

__all__ = ["TECHNIQUE", "send_ahead"]

ID = "device-prefetch"


def apply(session: Session | ScriptSession) -> int:
    """Make the loop's source prefetch windows, or a script's loader prefetch batches."""
    if isinstance(session, ScriptSession):
        from hotloop.machine.copy_stream import CudaCopyStream

        return send_ahead(session, CudaCopyStream, "cuda")
    if session.loading.prefetch:
        return 0
    session.loading.prefetch = True
    return 1


def send_ahead(session: ScriptSession, stream: Callable[[Any], Any], kind: str) -> int:
    """Prefetch a script's batches to devices of type `kind` over `stream(device)`.

    Returns 1, or 0 if `session.refused` says why not. Tests replace `stream` and `kind`.
    """
    from hotloop.observe.probes.dataset_trial import try_reading
    from hotloop.techniques.on_scripts.device_prefetch import BatchPrefetch

    session.refused = _unfit(session.loader)
    if session.refused is None:
        tried = try_reading(session.loader)
        session.refused = tried if isinstance(tried, str) else _why_not(tried, session.loader)
    if session.refused is not None:
        return 0
    session.loader_changes[ID] = session.facts[ID] = BatchPrefetch(
        stream, kind, session.troubles[ID]
    )
    return 1


def _unfit(loader: Any) -> str | None:
    from torch.utils.data import IterableDataset

    if isinstance(loader.dataset, IterableDataset):
        return "an iterable data set cannot be tried out: reading it ahead may draw other numbers"
    return None


def _why_not(tried: Tried, loader: Any) -> str | None:
    """Return why a batch must not be read while the loop uses the previous one, or None."""
    if tried.ahead:
        return f"the sampler draws from {', '.join(tried.ahead)} between batches: others than now"
    if loader.num_workers:
        return None  # worker processes read ahead in memory of their own
    if tried.moved:
        return f"reading samples draws from {', '.join(tried.moved)}: others would be drawn"
    if tried.changes:
        return "reading changes the data set each time: the loop would see it changed too early"
    if tried.shares:
        return "a batch has memory in common with the data set, which the next one may change"
    return None


def read_back(session: Session | ScriptSession) -> str | None:
    """Read the loader flag; for a script, the device to which its loop moves its batches."""
    if isinstance(session, ScriptSession):
        prefetch = session.facts.get(ID)
        if prefetch is None:
            return None
        if prefetch.device is None:
            session.refused = "the loop moves no tensor of its batches to the GPU by .to or .cuda"
            return None
        return f"the next batch is copied to {prefetch.device} on a side stream"
    return "the next window is copied on a side stream" if session.loading.prefetch else None


TECHNIQUE = Technique(
    id=ID,
    title="Device prefetch",
    stage=Stage.LOADER,
    numerics=Numerics.BITWISE,
    blocked=only_on("cuda", "batches are copied on CUDA only"),
    apply=apply,
    read_back=read_back,
    nothing="windows are copied ahead already",
    late=True,
)
