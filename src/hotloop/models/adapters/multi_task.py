"""Linear layers with an adapter for each task, all of them in one pass over a mixed batch.

Dims: S rows (documents), N positions, I inputs, O outputs, K tasks, R rank of each.
The A of all tasks are one matrix [K R, I] and the B one of [O, K R]: two products for the whole
batch, between which each position's part of a task is multiplied by its share of it. That is K
times the work of one adapter, small beside the frozen product while K R is small beside I and O.
There is no loop over rows, no sorting, and no wait for the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from hotloop.core.errors import ConfigError
from hotloop.models.adapters.attach import become
from hotloop.models.adapters.lora import Adapted, LoraLinear, drawn
from hotloop.models.adapters.nf4_linear import frozen_product
from hotloop.models.adapters.shared_input import share_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from hotloop.models.adapters.config import AdapterConfig

__all__ = ["Shares", "StackedLora", "attach_stack"]


class Shares:
    """The share of each task's adapter that the rows of the current batch take."""

    def __init__(self, tasks: Sequence[str]) -> None:
        self.tasks = tuple(tasks)
        # Shares of rows, whose positions are all alike; of positions, if documents share a row.
        self._of_XK: Tensor | None = None
        self._seen_K: Tensor | None = None  # largest share of a row in training; None: not tracked

    def __deepcopy__(self, memo: Any) -> Shares:
        """Return shares for a copy of the model, without those of the current batch."""
        return Shares(self.tasks)

    @property
    def given(self) -> bool:
        """Return whether adapters are on; else the model is the frozen one."""
        return self._of_XK is not None

    def give(self, of_SK: Tensor | None, batch: Mapping[str, Any]) -> None:
        """Set the shares of rows, or documents; None turns all adapters off.

        They hold until they are set again: a backward pass that recomputes layers needs them, and
        so does generating text, one position after the other. Raises ValueError if their number is
        not that of the batch's rows, or documents.
        """
        if of_SK is None:
            self._of_XK = None
            return
        (rows, width), boundaries = batch["input_ids"].shape, batch.get("boundaries")
        documents = rows if boundaries is None else len(boundaries.lengths)
        if of_SK.shape != (documents, len(self.tasks)):
            raise ValueError(
                f"shares of shape {list(of_SK.shape)} for {documents} documents and "
                f"{len(self.tasks)} tasks"
            )
        if self._seen_K is not None and torch.is_grad_enabled():
            torch.maximum(self._seen_K, of_SK.detach().amax(0), out=self._seen_K)
        if boundaries is not None:
            lengths_S = boundaries.cu_seqlens.long().diff()
            of_SK = of_SK.repeat_interleave(lengths_S, dim=0, output_size=rows * width)
        self._of_XK = of_SK

    def watch(self, device: torch.device) -> None:
        """Track from now on the largest share of each adapter that a row takes in training."""
        if self._seen_K is None:  # a recorded step writes to it where it is
            self._seen_K = torch.zeros(len(self.tasks), device=device)
        self._seen_K.zero_()

    def seen(self, task: int) -> Tensor:
        """Return the largest share of a task's adapter, a scalar."""
        assert self._seen_K is not None
        return self._seen_K[task]

    def forget(self) -> None:
        """Reset the tracked shares."""
        assert self._seen_K is not None
        self._seen_K.zero_()

    def times(self, h_NX: Tensor, rank: int) -> Tensor:
        """Return the products of all tasks' A, [N, G K R], each task's part times its share."""
        assert self._of_XK is not None
        of_XK = self._of_XK.to(h_NX.dtype)
        h_XTKR = h_NX.view(len(of_XK), -1, len(self.tasks), rank)
        return (h_XTKR * of_XK[:, None, :, None]).view_as(h_NX)


class StackedLora(LoraLinear):
    """x W^T + bias + s ((dropout(x) A^T) * shares) B^T, with A [K R, I] and B [O, K R]."""

    shares: Shares

    def adopt(self, config: AdapterConfig, name: str) -> None:
        """Add A, drawn for each task from a separate generator, and B, which is zero."""
        Adapted.adopt(self, config, name)
        a_RI = [drawn(config, f"{name}/{task}", self.in_features) for task in self.shares.tasks]
        self.lora_A = self.placed(torch.cat(a_RI))
        self.lora_B = self.placed(torch.zeros(self.out_features, len(self.lora_A)))
        self.scaling = config.scaling

    def of_task(self, task: int) -> dict[str, Tensor]:
        """Return A [R, I] and B [O, R] of a task by their names in PEFT's files: views."""
        ranks = slice(task * self.adapter.rank, (task + 1) * self.adapter.rank)
        return {"lora_A.weight": self.lora_A[ranks], "lora_B.weight": self.lora_B[:, ranks]}

    @property
    def lowers_apart(self) -> bool:
        """Return True: between A and B are the shares."""
        return True

    def lowered(self, x_NI: Tensor, others: Sequence[LoraLinear] = ()) -> Tensor:
        """Return (dropout(x) A^T) * shares, [N, K R], and that of other layers beside it."""
        return self.shares.times(super().lowered(x_NI, others), self.adapter.rank)

    def merged(self) -> tuple[Tensor, Tensor | None]:
        """Raise ConfigError, because a row's adapter is only known when the row comes."""
        raise ConfigError("adapters that are routed cannot be merged: export them one by one")

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] -> [..., O]; without shares the frozen layer's output."""
        if self.shares.given:
            return super().forward(x)
        x_NI = x.reshape(-1, self.in_features)
        return self.shaped(
            frozen_product(x_NI.to(self.computed_in(x_NI)), self.weight, self.bias), x
        )


def attach_stack(model: nn.Module, config: AdapterConfig, tasks: Sequence[str]) -> Shares:
    """Put a LoRA adapter for each task on the targets and freeze the rest; return their shares.

    At first no task changes the model's output. Raises ConfigError as `attach.attach` does, and for
    no tasks, repeated tasks, or another kind of adapter.
    """
    if config.kind != "lora" or config.modules_to_save:
        raise ConfigError("adapters that are routed are of the kind lora, and heads are their own")
    if not tasks or len({*tasks}) < len(tasks):
        raise ConfigError(f"tasks: {', '.join(tasks) or 'none'}; name one or more, each once")
    shares = Shares(tasks)
    become(model, config, StackedLora, shares=shares)
    share_inputs(model)
    return shares
