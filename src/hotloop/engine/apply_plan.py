"""Builds a session from a job and a plan: gates, techniques by stage, read-back of effects."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from hotloop import techniques
from hotloop.core.effect import Effect, Word
from hotloop.core.errors import PlanError
from hotloop.core.sharding_ids import SHARING
from hotloop.engine.checkpoint.state import seed_rank
from hotloop.engine.dynamic_sizes import changing_sizes_marked
from hotloop.engine.signals import Dropped
from hotloop.engine.step import is_out_of_memory, to_device
from hotloop.machine.growing_segments import grow_segments
from hotloop.models.attention.gpu_trial import measuring
from hotloop.session.ranks import SINGLE_PROCESS
from hotloop.session.session import Parallel, Session, Stepping
from hotloop.techniques.base import Stage
from hotloop.techniques.selection import TYPED, check, find, model_in_16_bits, without_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import nn

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan, Use
    from hotloop.session.batch import Batch
    from hotloop.session.job import Job
    from hotloop.session.ranks import ProcessGroup
    from hotloop.techniques.base import Technique

__all__ = [
    "TYPED",
    "after_warm_up",
    "check",
    "in_one_line",
    "nothing_stays",
    "prepare",
    "settle_in",
    "undo",
    "warm_up",
    "within",
]

_LONGEST = 300  # characters of a compiler's message in a row of the table


def prepare(
    job: Job,
    plan: Plan,
    hardware: Hardware,
    origins: Mapping[str, str],
    *,
    ranks: ProcessGroup = SINGLE_PROCESS,
    known: Sequence[Technique] = techniques.ALL,
) -> tuple[Session, list[Effect]]:
    """Build the session and apply every technique of the plan; a compilation waits for `warm_up`.

    `origins` maps a technique id to its origin. A technique that is refused or finds nothing to
    change raises PlanError if the user typed it, and else becomes a row of the table. After an
    error the process-wide switches are restored. With several ranks, each has a random stream of
    its own, and PlanError is raised unless a technique lets them share the model. `known` are the
    techniques to choose from.
    """
    check(plan, hardware, origins, known=known)
    torch.manual_seed(job.seed)
    order = [(find(use.id, known), use) for use in plan.techniques]
    order.sort(key=lambda pair: (pair[0].stage, pair[0].id))
    build = model_in_16_bits(job, plan, hardware, known=known)
    no_longer_grow = grow_segments(hardware)
    try:
        session = _start(job, plan, hardware, ranks, build)
    except BaseException:
        if no_longer_grow is not None:
            no_longer_grow()
        raise
    if no_longer_grow is not None:
        session.undo["allocator"] = no_longer_grow
    effects: list[Effect] = []
    try:
        for technique, use in order:
            if technique.stage >= Stage.OPTIMIZER and session.optimizer is None:
                session.optimizer = job.optimizer(session.model)
            effects.append(_apply(session, technique, use, plan, origins.get(use.id, "plan")))
        if session.optimizer is None:
            session.optimizer = job.optimizer(session.model)
        if ranks.world > 1 and session.parallel.sync is None:
            raise PlanError(
                f"{ranks.world} ranks would each train a model of their own: the plan needs one of "
                f"{', '.join(SHARING)}"
            )
    except BaseException:
        undo(session)
        raise
    return session, effects


def undo(session: Session) -> None:
    """Restore the process-wide switches, the last one first."""
    for back_out in reversed(session.undo.values()):
        back_out()
    session.undo.clear()


def _start(
    job: Job,
    plan: Plan,
    hardware: Hardware,
    ranks: ProcessGroup,
    build: Callable[[bool], nn.Module] | None,
) -> Session:
    device = torch.device(hardware.device)
    model = (job.model() if build is None else build(True)).to(device)
    if ranks.rank > 0:
        seed_rank(job.seed, ranks.rank, 0)
    return Session(
        job=job,
        hardware=hardware,
        device=device,
        model=model,
        micro_batch=plan.micro_batch,
        accumulation=plan.accumulation,
        forward=lambda tensors: job.loss(model, tensors),
        stepping=Stepping(steady=nullcontext if job.steady is None else partial(job.steady, model)),
        parallel=Parallel(group=ranks),
        choices=dict if job.choices is None else partial(job.choices, model),
    )


def _apply(session: Session, technique: Technique, use: Use, plan: Plan, origin: str) -> Effect:
    def row(word: Word, how: str) -> Effect:
        if word != "in effect" and origin in TYPED:
            raise without_effect(use, how)
        return Effect(technique=str(use), origin=origin, word=word, how=how)

    if (why := technique.blocked(session.hardware, plan)) is not None:
        return row("refused", why)
    if not technique.apply(session, **dict(use.choice)):
        return row("not needed here", technique.nothing)
    if technique.stage is Stage.COMPILE:
        return row("in effect", "takes effect at the first call")
    if (how := technique.read_back(session)) is not None:
        return row("in effect", how)
    session.undo.pop(technique.id, lambda: None)()
    return row("refused", "it was applied but cannot be read back")


def warm_up(session: Session, batch: Batch, others: Sequence[Batch] = ()) -> str | None:
    """Make the first, compiling calls on a batch; return why compilation failed, or None.

    Sizes in which other batches differ are those that change (`changing_sizes_marked`).
    Only the compiled code stays: weights, buffers and random state are as before, and gradients
    are cleared. Compilation is lazy and fails only here, in the forward or backward pass. The same
    calls are then made in eager mode; if they succeed, the compiler was at fault. Raises the
    model's own errors. Out of memory is left to the loop, which halves the micro batch.
    """
    try:
        is_compiled = "compile" in session.undo
        passes = [partial(_seen, session, each) for each in (batch, *others) if is_compiled]
        with nothing_stays(session), changing_sizes_marked(session.model, passes):
            _first_calls(session, batch)
    except Exception as error:
        if (dropped := within(error, Dropped)) is not None:
            raise dropped from error  # a signal, which the compiler wrapped in its own error
        if "compile" not in session.undo:
            raise
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            return None
        session.undo.pop("compile")()
        _first_calls(session, batch)
        return in_one_line(error)
    return None


def settle_in(session: Session, batch: Batch) -> None:
    """Make the first passes if they decide the order of sums, so that all starts decide alike.

    On a GPU attention measures its kernels in them. Nothing else of them stays. A compiled model
    makes its first passes in `warm_up`. Out of memory is left to the loop.
    """
    sync = session.parallel.sync
    decides = sync is not None and sync.settles
    chooses = session.device.type == "cuda" and session.job.choices is not None and sync is None
    if not (decides or chooses) or "compile" in session.undo:
        return
    try:
        with measuring():
            _first_calls(session, batch)
    except RuntimeError as error:
        if sync is not None or not is_out_of_memory(error):
            raise


@contextmanager
def nothing_stays(session: Session) -> Iterator[None]:
    """Restore random state and buffers after the block, set training mode, clear the gradients."""
    devices = [session.device] if session.device.type == "cuda" else []
    buffers = [(buffer, buffer.clone()) for buffer in session.model.buffers()]
    session.model.train()
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        session.model.train()
        session.model.zero_grad(set_to_none=session.stepping.replay is None)
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)


def _first_calls(session: Session, batch: Batch) -> None:
    """Train twice, as the CUDA graphs of torch.compile record at the second call; evaluate once."""
    tensors = to_device(batch, session.device)
    with nothing_stays(session):
        for _ in range(2):
            session.forward(tensors).backward()  # type: ignore[no-untyped-call]
        session.model.eval()
        with torch.no_grad():
            session.forward(tensors)


def _seen(session: Session, batch: Batch) -> None:
    session.forward(to_device(batch, session.device))


def within(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    """Return the first error of a kind in the chain of an error and its causes, or None."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def in_one_line(error: Exception) -> str:
    """Return an error's first paragraph: the compiler names itself in line 1, the cause below."""
    paragraph = str(error).strip().split("\n\n")[0]
    return f"{type(error).__name__}: {' '.join(paragraph.split())}"[:_LONGEST]


def after_warm_up(
    effects: list[Effect],
    session: Session,
    failure: str | None,
    *,
    of: str = "compile",
    needless: str | None = None,
) -> list[Effect]:
    """Return the table with the row of the technique `of` updated after the first call.

    `needless` is why it was left out after it was tried.
    """
    how = None if failure else techniques.get(of).read_back(session)
    guide = " (hotloop explain compile-fails)" if of == "compile" else ""
    why = (
        f"fell back to eager: {failure}{guide}" if failure else "nothing of the model was compiled"
    )
    word: Word = "in effect" if how else "not needed here" if needless else "refused"
    return [
        replace(row, word=word, how=how or needless or why)
        if row.technique.split("(")[0] == of and row.word == "in effect"
        else row
        for row in effects
    ]
