"""Forecasts the memory of one training step on fake tensors, which have sizes but no values.

Method: a dispatch mode sees every operator, counts each new storage once and subtracts it when
the storage dies, so the peak is that of the live tensors. The same tracker on real tensors
(`measure`) checks the forecast; both agree within 2 %, also with frozen parameters, where
`torch.distributed._tools.MemTracker` fails. Fake tensors are always on the CPU, because fake "cuda"
tensors abort the process on a CPU build of torch 2.13.
"""

from __future__ import annotations

import random
import sys
import time
import weakref
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.autograd.graph import get_gradient_edge
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from hotloop.core.errors import ConfigError, DeviceError, did_you_mean
from hotloop.jobs.forecast.like_cuda import LikeCuda
from hotloop.machine.gc_pause import collector_off
from hotloop.models.repeated_blocks import repeated_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from torch import Tensor, nn

    from hotloop.session.job import Job

__all__ = ["Forecast", "Tracker", "forecast", "measure"]

_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
_PRECISIONS = ("fp32", "tf32", *_AUTOCAST)
_FAKE_LIMITS = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
_TABLES = 2  # of a vocabulary: embedding and head


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Bytes of live tensors in one training step, and its FLOPs."""

    micro_batch: int  # samples
    parameters: int  # numbers that are trained or frozen
    parameters_bytes: int  # with buffers
    gradients_bytes: int  # after backward; frozen parameters have none
    optimizer_bytes: int  # its state, from the first step on
    activations_bytes: int  # the peak minus parameters, gradients and optimizer state
    peak_bytes: int
    trained_bytes: int  # of trained parameters; like buffers_bytes, part of parameters_bytes
    buffers_bytes: int
    # Bytes at the peak, part of the activations, of tensors whose last dimension is the vocabulary.
    # None if there is no vocabulary, or if other layers have its size too.
    logits_bytes: int | None
    flops: int | None  # forward and backward of one micro batch; causal attention counts in full
    seconds: float  # wall time of the forecast itself
    left_out: str  # what the peak does not include
    block_bytes: int = 0  # parameters of the largest repeated block
    outside_bytes: int = 0  # parameters outside of all repeated blocks
    trained: int = 0  # numbers that are trained
    made: str | None = None  # the day it was made, if it comes from forecast_cache


class Tracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sums the bytes of all live storages that operators created under this mode.

    It also counts the operators' FLOPs, by the formulas of torch's FlopCounterMode. That mode is
    not used, because its module hooks keep the recomputed tensors of checkpointed blocks alive: 464
    instead of 113 MiB of activations (char-lm's default model, micro batch 12, torch 2.13).
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.current = 0
        self.peak = 0
        self.flops = 0
        self.wide: int | None = None  # tensors with this last dimension are counted separately
        self.wide_at_peak = 0
        self._wide = 0
        self._alive: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in pytree.tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self._add(leaf)
        operator = getattr(func, "overloadpacket", None)
        if count := _ATTENTION.get(operator) or flop_registry.get(operator):
            self.flops += int(count(*args, **(kwargs or {}), out_val=out))
        return out

    def _add(self, tensor: Tensor) -> None:
        if tensor.layout != torch.strided:
            return
        storage = tensor.untyped_storage()
        key, size = id(storage), storage.nbytes()  # PyTorch keeps one Python object per storage
        if size == 0 or key in self._alive:
            return
        wide = size if tensor.dim() > 1 and tensor.shape[-1] == self.wide else 0

        def died(_: object) -> None:
            del self._alive[key]
            self.current -= size
            self._wide -= wide

        self._alive[key] = weakref.ref(storage, died)
        self.current += size
        self._wide += wide
        if self.current > self.peak:
            self.peak, self.wide_at_peak = self.current, self._wide


def forecast(
    job: Job,
    *,
    micro_batch: int,
    precision: str = "fp32",
    device: str = "cpu",
    flash: bool = True,
    accumulation: int = 1,
    replayed: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> Forecast:
    """Forecast the memory and FLOPs of one step of `job` with `micro_batch` samples on `device`.

    The batch has the shapes of the first samples of epoch 0, or is the job's widest. `precision` is
    fp32, tf32, bf16 or fp16; the last two run the loss under the CPU's autocast, whose lists of
    operators are close to CUDA's but not the same. `flash` tells whether a GPU has FlashAttention,
    the only kernel that takes fewer heads of keys than of queries. With `accumulation` above 1 the
    gradients of earlier micro batches exist from the start. If the steps are `replayed` as CUDA
    graphs, they exist in any case, and a validation stands beside the memory of the recordings.
    Random streams and global settings are unchanged.

    The first call in a process also loads torch._dynamo, which takes as long as importing torch;
    `forecast_cache` therefore stores forecasts. Raises ConfigError for an unknown precision, and
    DeviceError if the step reads tensor values (`.item()`, data-dependent shapes).
    """
    with collector_off():
        mode = FakeTensorMode(allow_non_fake_inputs=True)  # loads torch._dynamo
    like = LikeCuda(flash=flash) if device.startswith("cuda") else nullcontext()
    try:
        return _step(job, micro_batch, precision, device, accumulation, replayed, clock, mode, like)
    except RuntimeError as error:
        if not isinstance(error, _FAKE_LIMITS) and "FakeTensor" not in str(error):
            raise
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DeviceError(
            f"memory of {job.name} cannot be forecast, because its step reads tensor values "
            f"({first}): measure it instead"
        ) from error


def measure(
    job: Job,
    *,
    micro_batch: int,
    precision: str = "fp32",
    accumulation: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Forecast:
    """Measure what `forecast` predicts in a real step on the CPU: slow, used to check it."""
    real = nullcontext()
    return _step(job, micro_batch, precision, "cpu", accumulation, False, clock, real, real)


def _step(
    job: Job,
    micro_batch: int,
    precision: str,
    device: str,
    accumulation: int,
    replayed: bool,
    clock: Callable[[], float],
    tensors: AbstractContextManager[Any],
    like: AbstractContextManager[Any],
) -> Forecast:
    if precision not in _PRECISIONS:
        hint = did_you_mean(precision, _PRECISIONS)
        raise ConfigError(f"precision: expected one of {_PRECISIONS}, got {precision!r}{hint}")
    began = clock()
    with _random_streams_kept():
        shapes = _batch(job, micro_batch)
        with tensors, Tracker() as tracker, like:
            model = job.model().train()
            numbers = sum(parameter.numel() for parameter in model.parameters())
            weights = _bytes([*model.parameters(), *model.buffers()])
            tracker.wide = _told_by(model, job.vocabulary)
            has_gradients = accumulation > 1 or replayed
            flops, peak = _forward_backward(job, model, shapes, precision, has_gradients, tracker)
            logits = tracker.wide_at_peak
            gradients = _bytes(p.grad for p in model.parameters() if p.grad is not None)
            tracker.peak = tracker.current
            if job.state_bytes is None:
                optimizer = job.optimizer(model)
                optimizer.step()
                state = _bytes(pytree.tree_leaves(list(optimizer.state.values())))
            else:
                state = sum(job.state_bytes(p) for p in model.parameters() if p.requires_grad)
            # From the second step on, the state exists during forward and backward as well.
            logits = logits if peak + state >= tracker.peak else 0
            peak = max(peak + state, tracker.peak)
            if replayed:
                peak += _evaluation(job, model, shapes, precision, tracker)
    return Forecast(
        micro_batch=micro_batch,
        parameters=numbers,
        parameters_bytes=weights,
        gradients_bytes=gradients,
        optimizer_bytes=state,
        activations_bytes=peak - weights - gradients - state,
        peak_bytes=peak,
        trained_bytes=_bytes(p for p in model.parameters() if p.requires_grad),
        buffers_bytes=weights - _bytes(model.parameters()),
        logits_bytes=None if tracker.wide is None else logits,
        flops=flops or None,
        seconds=clock() - began,
        left_out=_left_out(device),
        **_in_blocks(model),  # type: ignore[arg-type] # mypy thinks of `made`
    )


def _in_blocks(model: nn.Module) -> dict[str, int]:
    sizes = [_bytes(block.parameters()) for block in repeated_blocks(model)]
    return {
        "block_bytes": max(sizes, default=0),
        "outside_bytes": _bytes(model.parameters()) - sum(sizes),
        "trained": sum(p.numel() for p in model.parameters() if p.requires_grad),
    }


def _told_by(model: nn.Module, vocabulary: int) -> int | None:
    """Return the vocabulary size if only logits have a last dimension of that size, else None."""
    if not vocabulary:
        return None
    tables = [p.shape for p in model.parameters() if p.dim() > 1 and vocabulary in p.shape]
    is_plain = all(shape[0] == vocabulary not in shape[1:] for shape in tables)
    return vocabulary if is_plain and len(tables) <= _TABLES else None


def _forward_backward(
    job: Job,
    model: nn.Module,
    shapes: Mapping[str, Any],
    precision: str,
    has_gradients: bool,
    tracker: Tracker,
) -> tuple[int, int]:
    """Run one micro batch; return its FLOPs and the peak in bytes."""
    tracker.peak = tracker.current
    batch = _tracked(shapes)
    for parameter in model.parameters() if has_gradients else ():
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    cast = _AUTOCAST.get(precision)
    tracker.flops = 0
    with torch.autocast("cpu", dtype=cast) if cast else nullcontext():
        loss = job.loss(model, batch)
    # loss.backward() would turn `LikeCuda` off, and recomputation would take the CPU's path.
    torch.autograd.backward(get_gradient_edge(loss))
    return tracker.flops, tracker.peak


def _evaluation(
    job: Job, model: nn.Module, shapes: Mapping[str, Any], precision: str, tracker: Tracker
) -> int:
    """Return the bytes that the forward pass of a validation takes at its peak."""
    cast, before = _AUTOCAST.get(precision), tracker.current
    tracker.peak = before
    with torch.no_grad(), torch.autocast("cpu", dtype=cast) if cast else nullcontext():
        job.loss(model.eval(), _tracked(shapes))
    return tracker.peak - before


def _tracked(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch of tensors that are made under the modes in effect."""
    return {name: v.clone() if torch.is_tensor(v) else v for name, v in batch.items()}


def _batch(job: Job, micro_batch: int) -> dict[str, Any]:
    """Return a host batch of `micro_batch` samples; missing rows repeat the first sample."""
    if job.widest is not None:
        widest = job.widest(micro_batch)
        return {**widest.tensors, **widest.beside(torch.device("cpu"))}
    batch = job.train.batch(0, 0, min(micro_batch, len(job.train)))
    missing = micro_batch - batch.samples
    if missing <= 0:
        return dict(batch.tensors)
    return {
        name: torch.cat([tensor, tensor[:1].expand(missing, *tensor.shape[1:])])
        for name, tensor in batch.tensors.items()
    }


def _bytes(values: Iterable[object]) -> int:
    storages = {id(v.untyped_storage()): v.untyped_storage() for v in values if torch.is_tensor(v)}
    return sum(storage.nbytes() for storage in storages.values())


def _left_out(device: str) -> str:
    inside = "the kernels' workspaces"
    if device.startswith("cuda"):
        return f"{inside}, the CUDA context, and the allocator's rounding and fragmentation"
    return f"{inside}, the interpreter and its libraries, and the allocator's rounding"


# torch's formulas leave out the CPU's flash attention and, before 2.13, raise AssertionError where
# keys have fewer heads than queries. These count each product of two matrices in full.
def _attention_flops(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    batch, heads, rows, width = query.shape
    return 2 * batch * heads * rows * key.shape[-2] * (width + value.shape[-1])


def _attention_backward_flops(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any
) -> int:
    batch, heads, rows, width = query.shape  # the scores again, dQ and dK; dV and d(scores)
    return 2 * batch * heads * rows * key.shape[-2] * (3 * width + 2 * value.shape[-1])


_aten = torch.ops.aten
_KERNELS = ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
_ATTENTION: dict[Any, Callable[..., int]] = {
    getattr(_aten, f"_scaled_dot_product_{kernel}{suffix}"): count
    for kernel in _KERNELS
    for suffix, count in (("", _attention_flops), ("_backward", _attention_backward_flops))
}


@contextmanager
def _random_streams_kept() -> Iterator[None]:
    """Restore the random streams of torch, Python and numpy, from which model constructors draw."""
    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    gpus = range(torch.cuda.device_count()) if started else ()
    python = random.getstate()
    numpy = sys.modules.get("numpy")
    legacy = numpy.random.get_state() if numpy else None
    try:
        with torch.random.fork_rng(devices=list(gpus)):
            yield
    finally:
        random.setstate(python)
        if numpy:
            numpy.random.set_state(legacy)
