"""Turns PyTorch's own objects into facts: loaders, optimizers, schedulers and scalers."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
from collections import Counter
from types import CodeType
from typing import Any

from hotloop.core.case.objects import Model, Optimizer, ParameterGroup, Scaler, Scheduler
from hotloop.core.case.steps_and_loaders import Loader
from hotloop.core.finding import SourceLocation
from hotloop.observe.hooks.stack_frames import is_own
from hotloop.process.internal_frames import hide

__all__ = [
    "length_of",
    "loader",
    "model",
    "nbytes",
    "optimizer",
    "own_code",
    "own_nbytes",
    "sampler_of",
    "scaler",
    "scheduler",
    "whole",
]


def own_code(target: Any) -> SourceLocation | None:
    """Return where a function or class is written, if that is the project's own code."""
    code = getattr(getattr(inspect.unwrap(target), "__func__", target), "__code__", None)
    if isinstance(code, CodeType):
        own, file = is_own(code.co_filename), os.path.abspath(code.co_filename)
        return SourceLocation(file=file, line=code.co_firstlineno) if own else None
    return _own_class(target) if isinstance(target, type) else None


@functools.lru_cache(maxsize=256)  # inspect parses the whole file: 25 ms for torch's containers
def _own_class(cls: Any) -> SourceLocation | None:
    try:
        file = inspect.getsourcefile(cls)
        if file is None or not is_own(file):
            return None
        return SourceLocation(file=os.path.abspath(file), line=inspect.findsource(cls)[1] + 1)
    except (OSError, TypeError):  # built in, or its source is gone
        return None


def nbytes(batch: Any) -> int:
    """Return the bytes of the tensors and arrays in a batch, however nested."""
    if (bytes_ := own_nbytes(batch)) is not None:
        return bytes_
    if isinstance(batch, dict) or hasattr(batch, "values"):
        return sum(map(nbytes, batch.values()))
    if isinstance(batch, list | tuple):
        return sum(map(nbytes, batch))
    return 0


def own_nbytes(value: Any) -> int | None:
    """Return the bytes of a tensor or an array; None if `value` is neither."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and value.is_sparse:
        # torch answers for all layouts but this one. The ledger does not record how we look.
        with importlib.import_module("torch.utils._python_dispatch")._disable_current_modes():
            return int(value._indices().nbytes + value._values().nbytes)
    bytes_ = getattr(value, "nbytes", None)
    return int(bytes_) if isinstance(bytes_, int) else None


def loader(loader: Any, *, key: int, place: SourceLocation | None) -> Loader:
    """Return a DataLoader's settings; leave open the fields that only its use can fill.

    Some libraries, such as fastai, pass an object of their own to PyTorch's iterators. It has only
    the attributes that those read.
    """
    from torch.utils.data import IterableDataset, TensorDataset, _DatasetKind

    data, sampler = whole(loader.dataset), sampler_of(loader)
    kind = getattr(loader, "_dataset_kind", None)
    iterable = isinstance(data, IterableDataset) or kind == _DatasetKind.Iterable
    batches = getattr(loader, "batch_sampler", None)
    size = getattr(loader, "batch_size", None) or getattr(batches, "batch_size", None)
    getitem = getattr(type(data), "__iter__" if iterable else "__getitem__", None)
    collate = loader.collate_fn
    return Loader(
        key=key,
        place=place,
        dataset=type(data).__name__,
        getitem=own_code(getitem) if getitem else None,
        collate=getattr(collate, "__name__", type(collate).__name__),
        collate_place=own_code(collate) or own_code(type(collate)),
        length=length_of(loader.dataset),
        batches=length_of(loader),
        batch_size=size,
        workers=loader.num_workers,
        pin_memory=bool(loader.pin_memory),
        persistent=bool(loader.persistent_workers),
        prefetch_factor=loader.prefetch_factor,
        drop_last=bool(loader.drop_last),
        shuffle=_shuffles(sampler),
        sampler=type(sampler).__name__,
        sampler_place=own_code(getattr(type(sampler), "__iter__", None)),
        once=_once(loader, sampler),
        in_order=getattr(loader, "in_order", True),
        iterable=iterable,
        worker_info=_divides(loader, data) if iterable else None,
        vectorised=hasattr(data, "__getitems__"),
        in_memory=True if isinstance(data, TensorDataset) else None,
        dataset_bytes=nbytes(data.tensors) if isinstance(data, TensorDataset) else None,
    )


def whole(data: Any) -> Any:
    """Return the data set that a Subset (of a Subset) passes samples on from."""
    from torch.utils.data import Subset

    while isinstance(data, Subset) and type(data).__getitem__ is Subset.__getitem__:
        data = data.dataset
    return data


def sampler_of(loader: Any) -> Any:
    """Return the sampler that decides the order: that of a batch sampler where one was passed."""
    batches: Any = getattr(loader, "batch_sampler", None)
    while hasattr(batches, "batch_sampler"):  # Accelerate's shard of one
        batches = batches.batch_sampler
    if batches is None:
        return getattr(loader, "sampler", None)
    return getattr(batches, "sampler", batches)


def _shuffles(sampler: Any) -> bool | None:
    from torch.utils.data import RandomSampler, SequentialSampler

    if isinstance(sampler, RandomSampler):
        return True
    if type(sampler) is SequentialSampler:
        return False
    shuffle = getattr(sampler, "shuffle", None)  # DistributedSampler
    return shuffle if isinstance(shuffle, bool) else None


def _once(loader: Any, sampler: Any) -> bool | None:
    """Whether each sample comes once an epoch; None where the sampler is not one of PyTorch's."""
    from torch.utils import data as samplers

    batches = getattr(loader, "batch_sampler", None)
    if sampler is None:
        return None
    if sampler is batches and type(batches) is not samplers.BatchSampler:
        return None  # the loader has a batch sampler of the script's own
    # The iterator of a list has no module.
    home = getattr(type(sampler).__iter__, "__module__", "")
    if not home.startswith(("torch.utils.data", "accelerate.")):
        return None
    if isinstance(sampler, samplers.WeightedRandomSampler):
        return not sampler.replacement
    if isinstance(sampler, samplers.RandomSampler):
        data = length_of(sampler.data_source)
        return not sampler.replacement and data is not None and sampler.num_samples <= data
    if isinstance(sampler, samplers.SubsetRandomSampler):
        return len(set(sampler.indices)) == len(sampler.indices)
    once = isinstance(sampler, samplers.SequentialSampler | samplers.DistributedSampler)
    return True if once else None


def length_of(data: Any) -> int | None:
    """Return the samples of a data set or the batches of a loader; None for a stream."""
    try:
        return len(data)
    except (TypeError, NotImplementedError, AttributeError):  # iterable data have none
        return None


def _divides(loader: Any, data: Any, depth: int = 3) -> bool | None:
    """Whether a stream, or a stream that it reads, asks for its worker's number.

    None where the source cannot be read, or where a worker_init_fn may divide the stream.
    """
    from torch.utils.data import IterableDataset

    if loader.worker_init_fn is not None:
        return None
    kind: Any = type(data)
    asks = _asks(kind)
    inner = getattr(data, "__dict__", {}).values() if depth and asks is False else ()
    streams = [part for part in inner if isinstance(part, IterableDataset)]
    answers = [_divides(loader, part, depth - 1) for part in streams]
    return next((answer for answer in answers if answer is not False), asks)


@functools.lru_cache(maxsize=256)
def _asks(cls: Any) -> bool | None:
    """Whether the file of the class, or of one of its bases, mentions get_worker_info."""
    base = ("torch", "collections", "typing", "builtins")  # torch's own sources mention it too
    mine = [kind for kind in cls.__mro__ if kind.__module__.partition(".")[0] not in base]
    try:
        return any("get_worker_info" in "".join(inspect.findsource(kind)[0]) for kind in mine)
    except (OSError, TypeError):
        return None


def optimizer(optimizer: Any, *, key: int, place: SourceLocation | None) -> Optimizer:
    """Return the facts of an optimizer, its parameter groups as they are now."""
    return Optimizer(
        key=key,
        name=type(optimizer).__name__,
        place=place,
        groups=tuple(_group(group, _own_options(optimizer)) for group in optimizer.param_groups),
    )


def model(module: Any) -> Model:
    """Return the facts that the parameters of an outermost module give."""
    parameters = list(module.parameters())
    dtypes: Counter[str] = Counter()
    for tensor in parameters:
        dtypes[str(tensor.dtype).removeprefix("torch.")] += tensor.numel()
    compiled = getattr(module, "_compiled_call_impl", None) is not None
    return Model(
        name=type(getattr(module, "_orig_mod", module)).__name__,  # torch.compile wraps it
        place=own_code(type(module)),
        parameters=sum(tensor.numel() for tensor in parameters),
        trainable=sum(tensor.numel() for tensor in parameters if tensor.requires_grad),
        bytes=sum(tensor.numel() * tensor.element_size() for tensor in parameters),
        dtypes=dict(dtypes),
        device=str(parameters[0].device) if parameters else "cpu",
        compiled=compiled or type(module).__name__ == "OptimizedModule",
    )


def _own_options(optimizer: Any) -> Any:
    """Return the options that an optimizer of torch reads; None: another one may read others."""
    is_of_torch = type(optimizer).__module__.startswith("torch.optim.")
    return optimizer.defaults if is_of_torch else None


def _group(group: Any, own: Any) -> ParameterGroup:
    tensors = group["params"]
    numbers = {
        key: float(value)
        for key, value in group.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    unknown = {} if own is None else {k: v for k, v in numbers.items() if k not in own}
    wanting = [t for t in tensors if t.requires_grad]
    state = [t.numel() for t in wanting if t.grad is None]
    return ParameterGroup(
        parameters=sum(t.numel() for t in tensors),
        tensors=len(tensors),
        frozen=sum(t.numel() for t in tensors if not t.requires_grad),
        without_gradient=sum(state) if len(state) < len(wanting) else 0,
        dtypes=tuple(sorted({str(t.dtype).removeprefix("torch.") for t in tensors})),
        fused=group.get("fused"),
        foreach=group.get("foreach"),
        weight_decay=group.get("weight_decay"),
        unknown=unknown,
        options={key: numbers[key] for key in numbers.keys() - unknown.keys()} if unknown else {},
    )


_TOTALS = ("T_max", "total_steps", "total_iters", "T_0", "max_steps")


def scheduler(scheduler: Any, *, place: SourceLocation | None) -> Scheduler:
    """Return a scheduler's length and how often it was stepped."""
    totals = (getattr(scheduler, name, None) for name in _TOTALS)
    total = next((value for value in totals if isinstance(value, int)), None)
    steps = getattr(scheduler, "_step_count", 1) - 1  # the constructor makes the first step
    epoch = getattr(scheduler, "last_epoch", 0)  # one with its own step() may count only this
    return Scheduler(
        name=type(scheduler).__name__,
        place=place,
        steps=max(0, steps, epoch if isinstance(epoch, int) else 0),
        total=_closed_over(scheduler) if total is None else total,
    )


def _closed_over(scheduler: Any) -> int | None:
    """Return the steps of a LambdaLR's schedule: the largest integer its function closes over."""
    for function in getattr(scheduler, "lr_lambdas", ()):
        keywords = dict(getattr(function, "keywords", None) or {})
        code = getattr(function, "__code__", None)
        if code is not None and function.__closure__:
            cells = zip(code.co_freevars, function.__closure__, strict=True)
            keywords.update({name: cell.cell_contents for name, cell in cells})
        counts = [v for v in keywords.values() if isinstance(v, int) and not isinstance(v, bool)]
        if counts and max(counts) > 1:  # the warm-up is shorter than the whole
            return max(counts)
    return None


def scaler(scaler: Any, *, place: SourceLocation | None) -> Scaler:
    """Return a gradient scaler's settings without its scale: reading it would wait for the GPU."""
    return Scaler(place=place, enabled=scaler.is_enabled())


hide(globals())
