"""One frozen backbone, an adapter for each task, and a router that selects a text's adapter.

Dims: S rows (documents), D width, K tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from hotloop.models.causal_lm import CausalLm
from hotloop.models.losses_by_part import Costs
from hotloop.models.pooling import Pooling
from hotloop.models.routing import Router, RouterLoss, Routing, annealed, shares_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from hotloop.models.adapters.multi_task import Shares
    from hotloop.models.backbone import Backbone
    from hotloop.models.task_heads import TaskHeads, TaskOutputs

__all__ = ["Joint", "TaskRouter", "features_width"]

_NO_LOSS = -100


@dataclass(frozen=True, slots=True, kw_only=True)
class Joint:
    """The curriculum that trains adapters and router together, by the progress of a run, 0 to 1.

    At first each row takes its own task's adapter, at the end the router's choice (the curriculum
    of Bengio et al. 2015, arXiv:1506.03099), between them a mixture that grows until `handed_over`.
    """

    routing: Routing = "gumbel"
    hot: float = 2.0  # temperature at the start, and at the end
    cold: float = 0.5
    handed_over: float = 0.5  # progress from which on only the router chooses
    weight: float = 0.1  # of the router's terms, relative to the tasks' loss
    terms: RouterLoss = field(default_factory=RouterLoss)


class TaskRouter(nn.Module):
    """Batches, as `Backbone` takes them, with task [S] (and the inputs of `TaskHeads`) -> answers.

    A decoder answers in text, an encoder by its `heads`. The router's input are the frozen model's
    features of a text, without any adapter: features [S, D], in the batch if they are cached.
    """

    def __init__(
        self,
        backbone: Backbone,
        shares: Shares,
        pooling: Pooling,
        *,
        heads: TaskHeads | None,
        router: Router | None,
        joint: Joint | None = None,
    ) -> None:
        """Take a backbone with a stack of adapters, and their shares."""
        super().__init__()
        self.trunk: Any = CausalLm(backbone) if heads is None else backbone
        self.shares, self.joint = shares, joint
        self.pooling, self.heads, self.router = pooling, heads, router
        self.last = Pooling("last-k", width=self.backbone.width)
        self.costs = Costs(len(shares.tasks))

    @property
    def backbone(self) -> Backbone:
        """Return the model that has the adapters."""
        backbone: Backbone = self.trunk if self.heads is not None else self.trunk.backbone
        return backbone

    @property
    def features_width(self) -> int:
        """Return the number of features of a text."""
        return features_width(self.backbone, self.heads)

    def features(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the frozen model's features of each text, [S, D] float32; all adapters are off.

        In rows with labels only the prompt counts, because the answer is not known when the router
        chooses. A decoder's features are the mean of the states and the last state, which has read
        all: 2 D.
        """
        with torch.no_grad():
            return self.pooled(batch)

    def pooled(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the features, with gradients if something below them is trained."""
        before = self.backbone.training
        self.backbone.eval()
        self.shares.give(None, batch)
        try:
            hidden_BTD, prompts = self.backbone(batch), _prompts(batch)
            pooled: Tensor = self.pooling(hidden_BTD, prompts)
            if self.heads is None:
                pooled = torch.cat([pooled, self.last(hidden_BTD, prompts)], 1)
        finally:
            self.backbone.train(before)
        return pooled

    def believed(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the router's logits, [S, K], of the batch's features or of new ones."""
        assert self.router is not None
        features = batch["features"] if "features" in batch else self.features(batch)
        logits_SK: Tensor = self.router(features)
        return logits_SK

    def loss(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the mean loss of rows, or of a decoder's tokens, with the router's terms if any.

        Each row takes the adapter of its task; with `joint` the curriculum's mixture.
        """
        own_SK = self._own(batch)
        if self.joint is None or self.router is None:
            return self._mean(batch, own_SK)
        # Frees the last batch's graph of autograd, whose nodes for the router's parameters would be
        # taken again: they belong to its stream, and a CUDA graph is recorded on another.
        self.shares.give(None, batch)
        joint, progress_S = self.joint, batch["progress"]
        temperature = annealed(joint.hot, joint.cold, progress_S)[:, None]
        routed_SK = shares_of(self.believed(batch), joint.routing, temperature=temperature)
        trust_S1 = (progress_S / joint.handed_over).clamp(max=1)[:, None]
        loss = self._mean(batch, own_SK + trust_S1 * (routed_SK - own_SK))
        terms = joint.terms(self.router, batch["features"], batch["task"], temperature=temperature)
        return loss + joint.weight * torch.stack([*terms.values()]).sum()

    def chosen(self, batch: Mapping[str, Any]) -> tuple[Tensor, Tensor | None]:
        """Return the shares [S, K] that rows take in evaluation, and the logits [S, K].

        Without a router each row takes its own task's adapter, and there are no logits.
        """
        if self.router is None:
            return self._own(batch), None
        logits_SK = self.believed(batch)
        return shares_of(logits_SK, "hard"), logits_SK

    def answers(self, batch: Mapping[str, Any], shares_SK: Tensor) -> TaskOutputs:
        """Return the outputs of an encoder's heads for these shares of the adapters."""
        assert self.heads is not None
        self.shares.give(shares_SK, batch)
        hidden_BTD = self.backbone(batch)
        outputs: TaskOutputs = self.heads(hidden_BTD, self.pooling(hidden_BTD, batch), batch)
        return outputs

    def _own(self, batch: Mapping[str, Any]) -> Tensor:
        return functional.one_hot(batch["task"], len(self.shares.tasks)).float()

    def _mean(self, batch: Mapping[str, Any], shares_SK: Tensor) -> Tensor:
        if self.heads is not None:
            loss_n, task_n = self.answers(batch, shares_SK).loss, batch["task"]
            mean = loss_n.mean()
        else:
            self.shares.give(shares_SK, batch)
            loss_n, at_n = self.trunk.losses(batch)
            task_n = batch["task"][at_n // batch["input_ids"].shape[1]]
            mean = loss_n.sum() / max(1, len(loss_n))
        if torch.is_grad_enabled():
            self.costs.add(loss_n, task_n)
        return mean


def features_width(backbone: Backbone, heads: TaskHeads | None) -> int:
    """Return the number of features of a text, with an encoder's heads or as a decoder."""
    return backbone.width * (1 if heads is not None else 2)


def _prompts(batch: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a batch whose mask leaves out the tokens with labels."""
    if "labels" not in batch:
        return batch
    return {**batch, "attention_mask": batch["attention_mask"] & (batch["labels"] == _NO_LOSS)}
