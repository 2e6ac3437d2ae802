"""The heads of an encoder: a label or a span of the text, with a head for each task.

Dims: B rows, T positions, D width, K tasks, C labels of all tasks, P tasks with spans.
The heads of all tasks are one product each, so rows of any tasks are mixed without a look-up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

__all__ = ["TaskHeads", "TaskOutputs"]

_SPREAD = 0.02  # standard deviation of new weights, as in BERT (Devlin et al. 2019)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskOutputs:
    """The losses and predictions of rows, [B] each."""

    loss: Tensor  # nats; for a span the mean over both its ends
    wrong: Tensor  # bool: a wrong label, or a span with a wrong start or end
    label: Tensor  # index among the task's own labels; without meaning for spans
    start: Tensor  # first and last token of the likeliest span; without meaning for labels
    end: Tensor


class TaskHeads(nn.Module):
    """Hidden states [B, T, D] and pooled ones [B, D] -> answers.

    A batch holds task [B], label [B] (index among the task's own), start and end [B] (tokens), and
    first [B], the first token of the text; -1 if a row has none. Spans are inside the text.
    """

    own_KC: Tensor
    before_K: Tensor
    place_K: Tensor

    def __init__(self, width: int, *, labels: Sequence[int], spans: Sequence[bool]) -> None:
        """Draw the heads from torch's generator; `labels` and `spans` are those of each task."""
        super().__init__()
        self.labels = nn.Linear(width, sum(labels)) if any(labels) else None
        self.spans = nn.Linear(width, 2 * sum(spans)) if any(spans) else None
        for head in (self.labels, self.spans):
            if head is not None:
                nn.init.normal_(head.weight, std=_SPREAD)
                nn.init.zeros_(head.bias)
        before = [sum(labels[:task]) for task in range(len(labels))]
        is_own = torch.zeros(len(labels), sum(labels), dtype=torch.bool)
        for task, count in enumerate(labels):
            # Without labels a task keeps all: a softmax of nothing is NaN, and spreads by products.
            is_own[task, before[task] : before[task] + count] = True
            is_own[task] |= count == 0
        self.register_buffer("own_KC", is_own, persistent=False)
        self.register_buffer("before_K", torch.tensor(before), persistent=False)
        places = [sum(spans[:task]) if has else 0 for task, has in enumerate(spans)]
        self.register_buffer("place_K", torch.tensor(places), persistent=False)

    def forward(
        self, hidden_BTD: Tensor, pooled_BD: Tensor, batch: Mapping[str, Any]
    ) -> TaskOutputs:
        """Return the answers; padding and tokens before the text are in no span."""
        task_B, rows = batch["task"], len(hidden_BTD)
        nothing = torch.zeros(rows, dtype=torch.long, device=hidden_BTD.device)
        loss, wrong = nothing.float(), nothing.bool()
        label, start, end = nothing, nothing, nothing
        if self.labels is not None:
            logits_BC = self.labels(pooled_BD.to(self.labels.weight.dtype)).float()
            logits_BC = logits_BC.masked_fill(~self.own_KC[task_B], -torch.inf)
            has = batch["label"] >= 0
            right = torch.where(has, batch["label"] + self.before_K[task_B], 0)
            row_loss = functional.cross_entropy(logits_BC, right, reduction="none")
            label = logits_BC.argmax(1) - self.before_K[task_B]
            loss = torch.where(has, row_loss, loss)
            wrong = torch.where(has, label != batch["label"], wrong)
        if self.spans is not None:
            start_BT, end_BT = self._ends(hidden_BTD, batch).unbind(-1)
            has = batch["start"] >= 0
            row_loss = torch.stack([
                functional.cross_entropy(scores, torch.where(has, right, 0), reduction="none")
                for scores, right in ((start_BT, batch["start"]), (end_BT, batch["end"]))
            ]).mean(0)  # fmt: skip
            start, end = _likeliest(start_BT, end_BT)
            loss = torch.where(has, row_loss, loss)
            wrong = torch.where(has, (start != batch["start"]) | (end != batch["end"]), wrong)
        return TaskOutputs(loss=loss, wrong=wrong, label=label, start=start, end=end)

    def _ends(self, hidden_BTD: Tensor, batch: Mapping[str, Any]) -> Tensor:
        """Return scores of starts and ends, [B, T, 2] float32."""
        assert self.spans is not None
        all_BTX = self.spans(hidden_BTD.to(self.spans.weight.dtype)).float()
        all_BTP2 = all_BTX.unflatten(2, (-1, 2))
        place_B = self.place_K[batch["task"]]
        index = place_B[:, None, None, None].expand(-1, all_BTP2.shape[1], 1, 2)
        ends_BT2 = all_BTP2.gather(2, index)[:, :, 0]
        at_T = torch.arange(ends_BT2.shape[1], device=ends_BT2.device)
        first_B = batch["first"]
        inside_BT = (at_T >= first_B[:, None]) & batch["attention_mask"].bool()
        inside_BT |= first_B[:, None] < 0  # rows of other tasks: nothing may be NaN
        masked_BT2: Tensor = ends_BT2.masked_fill(~inside_BT[:, :, None], -torch.inf)
        return masked_BT2


def _likeliest(start_BT: Tensor, end_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Return start and end of the best span whose end is not before its start, [B] each.

    The best start for each end is the largest score up to it, so no T x T table is needed.
    """
    best_BT, from_BT = start_BT.detach().cummax(1)
    end_B = (best_BT + end_BT.detach()).argmax(1)
    return from_BT.gather(1, end_B[:, None])[:, 0], end_B
