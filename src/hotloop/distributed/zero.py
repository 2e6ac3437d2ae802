"""Partition optimizer state, gradients and weights over the ranks, as DeepSpeed does.

DeepSpeed (https://arxiv.org/abs/1910.02054) partitions, exchanges and updates; model, loss, AdamW
and loop stay hotloop's. Tried with 0.19.8 and torch 2.13. Used although it is not documented:
`clip_grad`, `clear_backward_seen_flag`, `refresh_fp32_params`, `fp32_partitioned_groups_flat` and
`_lazy_init_hp_params_optimizer_state` of its optimizer, and `_FLUSHES` of its engine when a step
fails.
"""

from __future__ import annotations

import importlib
import logging
import math
import warnings
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import torch

from hotloop.core.errors import CheckpointError, ConfigError, DeviceError, DivergedError
from hotloop.core.sharding_ids import ZERO_BUCKET
from hotloop.distributed.model_with_loss import Whole
from hotloop.machine.clock import clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from torch import Tensor

    from hotloop.session.session import Session

__all__ = ["Zero"]

WEIGHTS: Final = 3  # the stage that partitions the weights, too
MOMENTS: Final = ("exp_avg", "exp_avg_sq")
# Methods that the engine calls when a window closes, even after a failed step.
_FLUSHES: Final = ("_flush_coalesced_reduction_zero12", "_flush_coalesced_reduction_zero3")
# torch 2.13 renamed functions that DeepSpeed 0.19.8 calls.
_OLD_NAMES: Final = r"`torch\.distributed\.\w+_tensor` is deprecated"


class Zero:
    """The gradient exchange of one session whose optimizer is partitioned; holds the partitions."""

    settles = False

    def __init__(self, session: Session, *, stage: int) -> None:
        assert session.optimizer is not None
        self.stage, self._ranks = stage, session.parallel.group
        self._optimizer, self._on_cpu = session.optimizer, session.device.type == "cpu"
        of = {id(parameter): name for name, parameter in session.model.named_parameters()}
        groups = self._optimizer.param_groups
        self._parameters = {of[id(p)]: p for group in groups for p in group["params"]}
        self._shapes = {id(p): p.shape for p in session.model.parameters()}
        self.names = tuple(self._parameters)
        self.module = Whole(session.model, session.forward)
        deepspeed = _deepspeed(session.device.type)
        self._tools, self._gathered = deepspeed.utils, deepspeed.zero.GatheredParameters
        engine, self._zero, _, _ = deepspeed.initialize(
            model=self.module,
            optimizer=self._optimizer,
            config=_config(stage, sum(shape.numel() for shape in self._shapes.values())),
            dist_init_required=False,
        )
        self._engine: Any = engine
        self._make_state()
        self._window: AbstractContextManager[None] | None = None
        self._waits: dict[str, float] = {}
        session.forward = self.module
        self.close = engine.destroy

    def _make_state(self) -> None:
        """Create AdamW's initial state at once, so that a checkpoint can be loaded into it."""
        for flat in self.flats():
            zeros = {name: torch.zeros_like(flat) for name in MOMENTS}
            self._optimizer.state[flat] = {"step": torch.tensor(0.0), **zeros}
        if self.stage < WEIGHTS:
            self._zero._lazy_init_hp_params_optimizer_state()

    def trained(self) -> list[Tensor]:
        """Return the parameters that the optimizer was given, in its order."""
        return list(self._parameters.values())

    def flats(self) -> list[Tensor]:
        """Return the tensors that this rank's optimizer updates: one partition of each group,
        flat.
        """
        if self.stage == WEIGHTS:
            partitions: list[Tensor] = list(self._zero.fp32_partitioned_groups_flat)
            return partitions
        return [p for group in self._optimizer.param_groups for p in group["params"]]

    @contextmanager
    def micro(self, *, last: bool) -> Iterator[None]:
        """Wrap the passes of a micro batch; exchange gradients after the last one of a window."""
        if self._window is None:
            self._window = self._engine.coalesce_grad_reduction()
            self._window.__enter__()
        self._zero.clear_backward_seen_flag()
        try:
            yield
            if last:
                self._complete()
        except BaseException:
            self._abandon()
            raise
        if last:
            began, window, self._window = clock(), self._window, None
            window.__exit__(None, None, None)
            if self._on_cpu:  # with a GPU, the host runs ahead of the exchange
                self._waits["backward"] = self._waits.get("backward", 0.0) + clock() - began

    def _abandon(self) -> None:
        """Close the window without its gradient exchange, which the other ranks will not join."""
        window, self._window = self._window, None
        assert window is not None
        for name in _FLUSHES:
            setattr(self._engine, name, lambda optimizer: None)
        window.__exit__(None, None, None)
        for name in _FLUSHES:
            delattr(self._engine, name)

    def _complete(self) -> None:
        """Make every rank send the same gradients: zeros for parameters that a loss did not use."""
        if self.stage < WEIGHTS:
            for parameter in self._parameters.values():
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            return
        used = [float(p.grad is not None) for p in self._parameters.values()]
        if all(whole for (whole,) in self._ranks.gather([float(all(used))])):
            return
        use_counts = [sum(flags) for flags in zip(*self._ranks.gather(used), strict=True)]
        for (name, parameter), ranks in zip(self._parameters.items(), use_counts, strict=True):
            if not ranks:  # else DeepSpeed uses the gradient of the previous step
                self._tools.safe_get_local_grad(parameter).zero_()
            elif ranks < self._ranks.world:
                raise ConfigError(
                    f"{name} was used by {ranks:.0f} of {self._ranks.world} ranks in a step, and "
                    "ZeRO-3 needs all or none: take stage 1 or 2, or ddp with unused=find"
                )

    def waits(self) -> Mapping[str, float]:
        """Return the seconds that passes waited for other ranks since the last call, by phase."""
        waits, self._waits = self._waits, {}
        return waits

    def norm(self, gradients: list[Tensor]) -> Tensor:
        """Never called, because `update` clips and knows the norm."""
        raise AssertionError("the pieces are clipped and stepped by update()")

    def update(self, loss: Tensor, gradient_clip: float) -> Tensor:
        """Clip and step; return the norm of all gradients before clipping, a scalar.

        Raises DivergedError, and leaves weights and state as they are, if loss or norm is not
        finite.
        """
        if math.isfinite(loss.item()):
            self._zero.clip_grad = max(0.0, gradient_clip)
            self._engine.step()
            if self._engine.was_step_applied():
                return torch.as_tensor(self._engine.get_global_grad_norm())
        raise DivergedError(f"the loss is {loss.item()} or the gradient norm is not finite")

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Gather the weights on every rank, and keep what the block writes into them."""
        parameters = list(self.module.parameters())
        pieces = self.stage == WEIGHTS
        with self._gathered(parameters, modifier_rank=0) if pieces else nullcontext():
            yield
        self._zero.refresh_fp32_params()

    def shape(self, parameter: Tensor) -> torch.Size:
        """Return the shape that a parameter had when the model was built."""
        return self._shapes[id(parameter)]

    def weight(self, parameter: Tensor) -> Tensor:
        """Return a trained parameter, gathered; all ranks must call this."""
        if self.stage < WEIGHTS:
            return parameter.detach()
        weight: Tensor = self._tools.safe_get_full_fp32_param(parameter)
        return weight

    def gradient(self, parameter: Tensor) -> Tensor | None:
        """Return the gradient of a window for a parameter, gathered; all ranks must call this."""
        gradient: Tensor | None = self._tools.safe_get_full_grad(parameter)
        return gradient

    @property
    def steps(self) -> float:
        """Return the number of updates made, which is the same for every parameter."""
        return float(self._optimizer.state[self.flats()[0]]["step"])

    def moment(self, name: str, entry: str) -> Tensor:
        """Return an entry of a parameter's optimizer state, gathered; all ranks must call this."""
        parameter = self._parameters[name]
        moment: Tensor = self._tools.safe_get_full_optimizer_state(parameter, entry)
        return moment.reshape(self.shape(parameter))

    def load(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Load the optimizer state of all parameters; each rank has it whole.

        Raises CheckpointError, before anything changes, if the parameters' step counts differ.
        """
        steps = {name: float(states.get(name, {}).get("step", 0.0)) for name in self.names}
        if len(set(steps.values())) > 1:
            low, high = min(steps, key=steps.__getitem__), max(steps, key=steps.__getitem__)
            raise CheckpointError(
                f"ZeRO keeps one count of steps, and the checkpoint has {steps[low]:.0f} for {low} "
                f"and {steps[high]:.0f} for {high}: go on with ddp or fsdp2"
            )
        for flat in self.flats():
            self._optimizer.state[flat]["step"].fill_(steps[self.names[0]])
        for name, state in states.items():
            for entry in MOMENTS:
                self._put(self._parameters[name], entry, state[entry])

    def _put(self, parameter: Tensor, entry: str, value: Tensor) -> None:
        value = value.to(self._optimizer.state[self.flats()[0]][entry].device)
        if self.stage < WEIGHTS:
            self._tools.safe_set_full_optimizer_state(parameter, value, entry)
            return
        # DeepSpeed's own function for whole tensors overruns them on the last rank (0.19.8).
        piece = self._tools.safe_get_local_optimizer_state(parameter, entry)
        first = self._ranks.rank * piece.numel()
        values = value.flatten()[first : first + piece.numel()]
        padded = torch.zeros_like(piece)
        padded[: values.numel()] = values
        self._tools.safe_set_local_optimizer_state(parameter, padded, entry)


def _config(stage: int, numbers: int) -> dict[str, Any]:
    """Return DeepSpeed's configuration for a model of `numbers` parameters."""
    bucket = min(max(1, numbers), ZERO_BUCKET)
    return {
        # DeepSpeed would count these itself; the loop handles batches and accumulation.
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "steps_per_print": None,
        "zero_allow_untested_optimizer": True,  # hotloop's AdamW is a subclass of torch's
        "zero_optimization": {
            "stage": stage,
            "overlap_comm": False,
            "reduce_bucket_size": bucket,
            "allgather_bucket_size": bucket,
            "stage3_prefetch_bucket_size": bucket // 10,
            # Nothing stays gathered between the passes: that is the purpose of stage 3.
            "stage3_param_persistence_threshold": 0,
            "stage3_max_live_parameters": 0,
            "stage3_max_reuse_distance": 0,
        },
    }


def _deepspeed(device: str) -> Any:
    """Import DeepSpeed without its log output. Raises DeviceError if it chose another device."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        package = importlib.import_module("deepspeed")
        accelerator = package.accelerator.get_accelerator().device_name()
    except ImportError as error:
        raise DeviceError(
            f"deepspeed cannot be imported ({error}): pip install 'hotloop[deepspeed]'"
        ) from error
    finally:
        logging.disable(before)
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", _OLD_NAMES, FutureWarning)
    if accelerator != device:
        raise DeviceError(
            f"DeepSpeed has chosen the device {accelerator}, and the run is on {device}: "
            f"set DS_ACCELERATOR={device}"
        )
    if device == "cpu":  # else it compiles a shared-memory exchange at the first step
        package.ops.__compatible_ops__ = {}
    return package
