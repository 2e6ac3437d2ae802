"""Has transformers' Trainer divide its optimizer steps into other micro batches while it trains.

The Trainer owns the loader's batch size, the number of micro batches and the share of each in the
step's loss. Its arguments are set before its loop begins and set back after it, so that callbacks
and checkpoints show what runs, and the script keeps what it asked for (transformers 5.23,
trainer.py).
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.core.units import many
from hotloop.observe.whatif.without_one_cost import Patches
from hotloop.process.import_hooks import ImportHooks
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["Division", "TrainerSteps", "why_not"]

_MODULE = "transformers.trainer"
# Methods with which a subclass may make batches or losses that do not go by the arguments.
_OWN = {
    "batches": ("get_train_dataloader", "get_batch_samples", "_get_dataloader"),
    "order": ("_get_train_sampler",),
    "loss": ("compute_loss", "training_step", "_get_num_items_in_batch"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """How the samples of an optimizer step are divided."""

    rows: int  # samples of a micro batch
    passes: int  # micro batches of an optimizer step

    @classmethod
    def of(cls, trainer: Any) -> Division:
        """Read it from the arguments of a Trainer."""
        args = trainer.args
        return cls(rows=args.per_device_train_batch_size, passes=args.gradient_accumulation_steps)

    def times(self, factor: Fraction) -> Division | str:
        """Return the division into micro batches `factor` times as large, or why there is none."""
        rows, passes = self.rows * factor, self.passes / factor
        if factor > 1 and self.passes == 1:
            return "an optimizer step is one micro batch: there is none to join it with"
        if passes.denominator > 1:
            return f"{self.passes} micro batches of a step cannot be joined by {factor}"
        if rows.denominator > 1:
            return f"a micro batch of {many(self.rows, 'row')} cannot be cut into {1 / factor}"
        return Division(rows=int(rows), passes=int(passes))

    def put_into(self, trainer: Any) -> None:
        """Set the arguments of a Trainer."""
        trainer.args.per_device_train_batch_size = self.rows
        trainer.args.gradient_accumulation_steps = self.passes
        trainer._train_batch_size = trainer.args.train_batch_size


class TrainerSteps:
    """The change of all Trainers of a script, until the first optimizer step shows no effect."""

    def __init__(self, factor: Fraction) -> None:
        self._factor, self._hooks, self._patches = factor, ImportHooks(), Patches()
        self.refused: str | None = None  # why the Trainer that was started last is as it was
        self._is_closed = False
        self._counted: Any = None  # the Trainer of the first step, while it trains
        self._first: int | None = None  # step that its training began with
        self._before = self._after = Division(rows=0, passes=0)  # of the first step
        self._samples = 0  # of an epoch
        self._rows: list[int] = []  # of each pass of the first step

    def wait_for_transformers(self) -> None:
        """Change the Trainer once transformers has defined it."""
        self._hooks.when(_MODULE, self._wrap)

    def undo(self) -> None:
        """Restore the Trainer."""
        self._hooks.stop()
        self._patches.undo()

    def made(self) -> str | None:
        """Say how the first optimizer step was made; None, and no further change, if as before."""
        before, after = self._before, self._after
        seen = len(self._rows), max(self._rows, default=0)
        # A short epoch, or the rest of one that is resumed, may have fewer passes.
        if self._rows and seen[0] <= after.passes and seen[1] == min(after.rows, self._samples):
            return (
                f"an optimizer step has {_words(*seen)} ({before.passes} of {before.rows} before)"
            )
        self._is_closed = True
        if self._rows:
            self.refused = f"its first step had {_words(*seen)}, not {after.passes} of {after.rows}"
        elif self.refused is None:
            self.refused = "no Trainer of transformers made the first optimizer step"
        return None

    def _wrap(self) -> None:
        trainer_class = sys.modules[_MODULE].Trainer
        loop = getattr(trainer_class, "_inner_training_loop", None)
        step = getattr(trainer_class, "training_step", None)
        if loop is None or step is None:
            self.refused = "this version of transformers has another training loop"
            return

        @functools.wraps(loop)
        def changed_loop(trainer: Any, *args: Any, **kwargs: Any) -> Any:
            return self._train(loop, trainer, args, kwargs)

        @functools.wraps(step)
        def counted_step(trainer: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if trainer is self._counted:
                self._count(trainer, inputs)
            return step(trainer, model, inputs, *args, **kwargs)

        self._patches.put(trainer_class, "_inner_training_loop", changed_loop)
        self._patches.put(trainer_class, "training_step", counted_step)

    def _train(self, loop: Any, trainer: Any, args: Any, kwargs: Any) -> Any:
        """Run the loop of a Trainer with the other division, or as it is."""
        before = Division.of(trainer)
        after = before.times(self._factor) if not self._is_closed else "the training has begun"
        if isinstance(after, Division):
            self.refused = why_not(trainer, before, after)
        else:
            self.refused = after
        if self.refused is not None or isinstance(after, str):
            return loop(trainer, *args, **kwargs)
        if not self._rows:
            self._before, self._after, self._counted = before, after, trainer
            self._samples = len(trainer.train_dataset)
        after.put_into(trainer)
        if "batch_size" in kwargs:
            kwargs = {**kwargs, "batch_size": trainer._train_batch_size}
        try:
            return loop(trainer, *args, **kwargs)
        finally:
            self._counted = None
            before.put_into(trainer)

    def _count(self, trainer: Any, inputs: Any) -> None:
        """Count a backward pass of the first step."""
        from accelerate.utils import find_batch_size  # type: ignore[import-untyped]

        step = trainer.state.global_step
        if self._first is None:
            self._first = step
        if step == self._first:
            self._rows.append(find_batch_size(inputs) or 0)


def _words(passes: int, rows: int) -> str:
    return f"{passes} micro batch{'es' * (passes != 1)} of {many(rows, 'row')}"


def why_not(trainer: Any, before: Division, after: Division) -> str | None:
    """Return why a Trainer's step would not be the same with another division, or None."""
    import transformers
    from torch.nn.modules.batchnorm import _BatchNorm

    args = trainer.args
    if int(transformers.__version__.partition(".")[0]) < 5:
        return f"transformers {transformers.__version__} weights micro batches in another way"
    if args.world_size > 1 or args.n_gpu > 1:
        return "it trains on several devices, which share the micro batches"
    if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
        return "DeepSpeed and FSDP have a division of their own"
    if args.auto_find_batch_size:
        return "auto_find_batch_size changes the micro batch itself"
    if (own := _own_methods(trainer)) is not None:
        return own
    if isinstance(trainer.data_collator, transformers.DataCollatorWithFlattening):
        return "its collator puts the rows of a micro batch into one row"
    if any(isinstance(module, _BatchNorm) for module in trainer.model.modules()):
        return "batch norm mixes the rows of a micro batch: its output would be another one"
    return _other_samples(trainer, before, after)


def _own_methods(trainer: Any) -> str | None:
    """Return why a Trainer may not go by its arguments, or None."""
    plain: Any = sys.modules[_MODULE].Trainer
    for what, names in _OWN.items():
        for name in names:
            if name in vars(trainer) or getattr(type(trainer), name) is not getattr(plain, name):
                return f"the script's {type(trainer).__name__} has its own {name}: {_WHY[what]}"
    if trainer.compute_loss_func is not None:
        return f"the script has a compute_loss_func: {_WHY['loss']}"
    return None


_WHY = {
    "batches": "its batches may be of another size",
    "order": "the order of its samples may depend on their number",
    "loss": "how it weights micro batches is not known",
}


def _other_samples(trainer: Any, before: Division, after: Division) -> str | None:
    """Return why an optimizer step would have other samples, or the same with other weights."""
    from torch.utils.data import IterableDataset

    args, data = trainer.args, trainer.train_dataset
    if isinstance(data, IterableDataset) or not hasattr(data, "__len__"):
        return "the data set has no length: the last step of an epoch may have other samples"
    if getattr(args, "train_sampling_strategy", None) == "batch_rebalance":
        return "train_sampling_strategy='batch_rebalance' makes batches by their length"
    count, larger = len(data), max(before.rows, after.rows)
    if args.dataloader_drop_last:
        if count // before.rows * before.rows != count // after.rows * after.rows:
            return f"with drop_last, an epoch of {count:,} samples would leave out other ones"
        count -= count % before.rows
    left = count % (before.rows * before.passes)
    if left % larger and not _weights_by_labels(trainer):
        return (
            f"the last step of an epoch has {many(left, 'sample')}, which {larger} does not "
            "divide: they would have other weights, as the loss is a mean of micro batches' means"
        )
    return None


def _weights_by_labels(trainer: Any) -> bool:
    """Whether the loss of a step is a sum over all of its labels, divided by their number."""
    told = getattr(trainer, "loss_is_scaled_for_ga", None)
    if told is not None:
        return bool(told)
    return bool(trainer.model_accepts_loss_kwargs and "labels" in trainer.label_names)


hide(globals())
