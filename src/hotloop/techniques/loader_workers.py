"""Loader processes: samples are read, decoded and collated beside the loop, some batches ahead.

What: has `count` processes make whole batches in the loop's order and keep `ahead` of them ready
    each, from epoch to epoch; count=0 has the loop make them itself. A script's DataLoader is
    changed before its first iteration, whether it had processes or not, and draws from the
    generators what it drew before. pin=auto pins the batches of processes on CUDA; on and off say
    so for any.
Helps when: the data are map-style and a sample costs time: decoding, tokenising, augmenting. The
    table of wall time then shows it as data wait. count=0 where processes are more than cores, or
    hand over what lies in memory.
Does not help when: a batch is handed over from a process in more time than it is made in. It is
    refused where samples are views of tensors that lie in memory and torch stacks them; elsewhere
    hotloop tune measures it. On a CPU that trains, the processes take cores from it.
Numbers: bitwise the same. In hotloop's engine each sample is read with generators seeded by (seed,
    epoch, index). In a script the first batch is read twice in a copy of the process first, the
    second time as one worker of several and backwards. It is refused where the batches differ, or
    reading draws from a generator, goes on changing the data set, moves a file that was open, or
    gives memory out that the next batch has too; and where the loader has a worker_init_fn. An
    error in a worker reaches the script with the worker's traceback in its message. What the script
    changes in its data set in the middle of an epoch is not looked for.
Measured: 16 x 1024 tokens from a memory map: 44 us cut by the loop itself; through torch's
    DataLoader 421 us without and 3,996 us with 2 processes (wall, medians, n 22; 2 cores of an AMD
    EPYC, torch 2.13; benchmarks/feeding.py). A script with 2 worker processes over tensors, 12
    epochs of 20 batches (examples/planted/loader_tiny_epochs): 3.3 s as it is, 1.1 s with count=0,
    1.8 s with the 2 kept from epoch to epoch (medians, n 5, in turns, same losses; the same
    machine, with other processes on it). Where samples cost time it is not measured here.
Source: https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading (2026-11)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotloop.core.units import many
from hotloop.session.session import ScriptSession
from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.observe.probes.dataset_trial import Tried
    from hotloop.session.session import Session
    from hotloop.techniques.on_scripts.sampler_epochs import Habit

__all__ = ["TECHNIQUE"]

ID = "loader-workers"


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Refuse more processes than cores, no prefetch, and pinned memory without CUDA."""
    choice = plan.choice(ID) or {}
    count = choice.get("count", 2)
    if count and choice.get("ahead", 2) == 0:
        return "processes with no batch that is ahead are slower than the loop itself"
    if hardware.cores is not None and isinstance(count, int) and count > max(1, hardware.cores):
        return f"{count} loader processes on {many(hardware.cores, 'core')} would fight for them"
    if choice.get("pin") == "on" and hardware.device != "cuda":
        return f"pinned memory speeds up copies to a CUDA GPU, and this is {hardware.device}"
    return None


def apply(
    session: Session | ScriptSession, *, count: int = 2, ahead: int = 2, pin: str = "auto"
) -> int:
    """Set the number of loader processes, or none; return 1 if that changes something."""
    if isinstance(session, ScriptSession):
        return _put_into(session, count, ahead, pin)
    if not count or session.job.train.in_memory or session.loading.workers:
        return 0
    session.loading = replace(
        session.loading, workers=count, windows_ahead=ahead, pins=pin != "off"
    )
    return 1


def _put_into(session: ScriptSession, count: int, ahead: int, pin: str) -> int:
    """Change a script's loader if it then still reads the same batches; return 1, or 0."""
    from hotloop.observe.probes.dataset_trial import try_reading
    from hotloop.techniques.on_scripts.sampler_epochs import Habit

    loader, habit = session.loader, Habit.of(session.loader)
    had = bool(loader.pin_memory)
    auto = had or (session.hardware.device == "cuda" and count > 0)
    pinned = {"auto": auto, "on": True}.get(pin, False)
    same = count == habit.workers and (not count or (ahead == habit.each and habit.persistent))
    if same and pinned == had:
        session.needless = f"the script's loader has {_words(loader)} already"
        return 0
    session.refused = _unfit(loader)
    if session.refused is not None:
        return 0
    tried = try_reading(loader)
    if isinstance(tried, str):
        session.refused = tried
        return 0
    if count or habit.workers:  # else the loop goes on reading, and only pins
        session.refused = _why_not(tried, loader, habit, count, ahead)
    if session.refused is None and pinned and not had and tried.unpinned is not None:
        session.refused = tried.unpinned if pin == "on" else None
        pinned = had
    if session.refused is None:
        _change(session, habit, count, ahead, pinned)
    return int(session.refused is None)


def _change(session: ScriptSession, habit: Habit, count: int, ahead: int, pinned: bool) -> None:
    """Set the options of the loader, and add the change that preserves its epoch habit."""
    from hotloop.techniques.on_scripts.in_loop_loading import InLoop
    from hotloop.techniques.on_scripts.loader_workers import PersistentWorkers

    options: dict[str, Any] = {"pin_memory": pinned, "num_workers": count}
    if count:
        options |= {"prefetch_factor": ahead, "persistent_workers": True}
        session.loader_changes[ID] = PersistentWorkers(habit)
    elif habit.workers:
        options["timeout"] = 0  # of workers
        session.loader_changes[ID] = InLoop(habit, session.troubles[ID])
    session.facts[ID] = habit
    session.undo[ID] = _setter(session, options)


def _setter(session: ScriptSession, options: dict[str, Any]) -> Callable[[], None]:
    """Set options of the loader; return a function that restores them.

    DataLoader forbids setting persistent_workers later, because running workers would not restart.
    No workers run yet, so the attributes are set directly.
    """
    state = vars(session.loader)
    before = {name: state[name] for name in options}

    def back() -> None:
        state.update(before)
        session.loader_changes.pop(ID, None)

    state.update(options)
    return back


def _unfit(loader: Any) -> str | None:
    """Return why this kind of loader must not be changed, or None."""
    from torch.utils.data import DataLoader, IterableDataset, MapDataPipe

    from hotloop.observe.probes.dataset_trial import can_fork

    if isinstance(loader.dataset, IterableDataset):
        return "an iterable data set is read whole by every process, or divided into another order"
    if isinstance(loader.dataset, MapDataPipe):
        return "a data pipe has a random stream of its own, which is not looked at"
    if type(loader)._get_iterator is not DataLoader._get_iterator:
        return f"a {type(loader).__name__} makes its iterators itself"
    if loader.worker_init_fn is not None:
        return "its worker_init_fn may make each process read something else"
    if not loader.in_order:
        return "with in_order=False its batches come in no order that could be kept"
    if loader._iterator is not None:
        return f"its {loader.num_workers} worker processes run already, and are kept by the script"
    if not can_fork() or (loader.num_workers and not _forks(loader)):
        return "without fork a process cannot be proved to read the same samples"
    return None


def _forks(loader: Any) -> bool:
    """Whether the loader's processes are forked; does not fix the script's start method."""
    import multiprocessing

    context = loader.multiprocessing_context or multiprocessing
    method = context.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    return bool(method == "fork")


def _why_not(tried: Tried, loader: Any, habit: Habit, count: int, ahead: int) -> str | None:
    """Return why changed processes would gain nothing or read different data, or None."""
    if tried.moved:
        return f"reading samples draws from {', '.join(tried.moved)}: others would be drawn"
    if tried.ahead and count * ahead > habit.ahead:
        return f"the sampler draws from {', '.join(tried.ahead)} between batches: others than now"
    if (why := _stateful(tried, count)) is not None or habit.workers:
        return why
    if tried.unsent is not None:
        return f"a batch cannot be sent from one process to another: {tried.unsent}"
    return _lies_ready(tried, loader)


def _lies_ready(tried: Tried, loader: Any) -> str | None:
    """Return why processes would only copy data that lie in memory, or None."""
    from torch.utils.data import default_collate

    if not tried.views or loader.collate_fn is not default_collate:
        return None
    return (
        "its samples are views of tensors that lie in memory: a process would copy each batch "
        "twice; vectorised-reads cuts a batch at once"
    )


def _stateful(tried: Tried, count: int) -> str | None:
    """Return why a sample depends on the process or the order in which it is read, or None."""
    if tried.same is None:
        return "its batches are of a type that cannot be compared"
    if not tried.same:
        return "a batch that is read again, as a worker would read it, is not the same"
    if tried.changes:
        return "reading changes the data set each time: processes would each change their own"
    if tried.seeks:
        return "reading moves the position of a file that is open, which processes share"
    if tried.shares:
        return "a batch has memory in common with the data set: what the loop writes there is kept"
    if tried.keeps and not count:
        return "reading leaves something in the data set, which stayed in the worker processes"
    return None


def _words(loader: Any) -> str:
    pinned = ", into pinned memory" if loader.pin_memory else ""
    if not loader.num_workers:
        return f"0 loader processes: batches are made in the loop{pinned}"
    kept = "kept over epochs" if loader.persistent_workers else "started at each epoch"
    return (
        f"{loader.num_workers} loader processes, {loader.prefetch_factor} batches ahead each, "
        f"{kept}{pinned}"
    )


def read_back(session: Session | ScriptSession) -> str | None:
    """Describe the loader processes from the options; they start with the first batch."""
    if isinstance(session, ScriptSession):
        habit = session.facts.get(ID)
        if habit is None:
            return None
        had = "" if habit.workers == session.loader.num_workers else f" (it had {habit.workers})"
        return _words(session.loader) + had
    if not session.loading.workers:
        return None
    ahead = session.loading.windows_ahead
    return f"{session.loading.workers} loader processes, {ahead} windows ahead each"


TECHNIQUE = Technique(
    id=ID,
    title="Loader processes",
    stage=Stage.LOADER,
    numerics=Numerics.BITWISE,
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    choices={"count": (2, 0, 1, 4, 8), "ahead": (2, 4, 8), "pin": ("auto", "on", "off")},
    nothing="the data lie in memory, or no process was asked for: the loop makes its own batches",
    excludes=frozenset({"sample-cache"}),
)
