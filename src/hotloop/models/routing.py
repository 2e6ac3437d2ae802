"""A router, which selects a text's task adapter by the features that the frozen model gives it.

Dims: S rows, D features, K tasks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

import torch
from torch import nn
from torch.nn import functional

from hotloop.core.errors import ConfigError, did_you_mean
from hotloop.models.losses_by_part import Costs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

__all__ = ["ROUTINGS", "Router", "RouterAlone", "RouterLoss", "Routing", "annealed", "shares_of"]

Routing = Literal["hard", "soft", "gumbel"]
ROUTINGS: Final[tuple[Routing, ...]] = get_args(Routing)
_TINY: Final = 1e-20  # below it, the logarithm of a uniform number would be -inf


class Router(nn.Module):
    """Features [S, D] -> logits [S, K]: LayerNorm, a GELU layer, a linear layer. All in float32."""

    def __init__(
        self,
        features: int,
        tasks: int,
        *,
        width: int = 256,
        dropout: float = 0.0,
        terms: RouterLoss | None = None,
    ) -> None:
        """Draw the weights from torch's own generator; the last layer begins at 0: equal logits."""
        super().__init__()
        self.terms = terms or RouterLoss()
        self.norm = nn.LayerNorm(features)
        self.hidden = nn.Linear(features, width)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(width, tasks)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, features_SD: Tensor) -> Tensor:
        """Return the logits; their softmax over a temperature is the router's belief."""
        with torch.autocast(features_SD.device.type, enabled=False):
            h_SW = functional.gelu(self.hidden(self.norm(features_SD.float())))
            logits_SK: Tensor = self.out(self.dropout(h_SW))
            return logits_SK


class RouterAlone(nn.Module):
    """A router without the model below it: batches with features [S, D] -> logits [S, K].

    Its weights have the same names as in a `TaskRouter`.
    """

    def __init__(self, router: Router) -> None:
        """Wrap the router."""
        super().__init__()
        self.router = router
        self.costs = Costs(router.out.out_features)

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the logits."""
        logits_SK: Tensor = self.router(batch["features"])
        return logits_SK


def shares_of(logits_SK: Tensor, routing: Routing, *, temperature: float | Tensor = 1.0) -> Tensor:
    """Return the share of each adapter that a row takes, [S, K]; each row adds up to 1.

    hard: all of the likeliest, without a gradient. soft: softmax(logits / temperature). gumbel:
    forward the likeliest of logits + Gumbel noise, backward the softmax of their sum over the
    temperature (straight-through; Jang et al. 2017, arXiv:1611.01144), drawn from torch's own
    generator. A temperature may be given for each row, [S, 1]. Raises ConfigError for an unknown
    routing, or a temperature that is not above 0.
    """
    if routing not in ROUTINGS:
        raise ConfigError(
            f"routing: expected one of {', '.join(ROUTINGS)}, got {routing!r}"
            f"{did_you_mean(routing, ROUTINGS)}"
        )
    if not isinstance(temperature, torch.Tensor) and not 0 < temperature < math.inf:
        raise ConfigError(f"temperature is above 0 and finite, not {temperature}")
    if routing == "hard":
        return _one_hot(logits_SK.detach())
    if routing == "soft":
        return (logits_SK / temperature).softmax(1)
    drawn_SK = torch.rand_like(logits_SK).clamp_min(_TINY)
    noisy_SK = logits_SK - (-drawn_SK.log()).clamp_min(_TINY).log()
    soft_SK = (noisy_SK / temperature).softmax(1)
    return _one_hot(noisy_SK.detach()) + (soft_SK - soft_SK.detach())  # exactly one-hot


def _one_hot(scores_SK: Tensor) -> Tensor:
    best_S = scores_SK.argmax(1)
    return functional.one_hot(best_S, scores_SK.shape[1]).to(scores_SK.dtype)


def annealed(start: float, end: float, progress: Tensor) -> Tensor:
    """Return temperatures between two, geometrically: start * (end / start) ** progress, 0 to 1."""
    return start * (end / start) ** progress.clamp(0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterLoss:
    """The loss terms of a router, p = softmax(logits / temperature) [S, K]; weight 0 skips one.

    right: cross-entropy of the logits with the rows' true tasks, in nats.
    balance: K sum_k f_k P_k - 1, with f_k the share of rows whose likeliest task is k and P_k the
        mean of p_k (Fedus et al. 2021, arXiv:2101.03961); 0 if all adapters are used equally.
    efficiency: mean of 1 / sum_k p_k^2, less 1: the number of adapters a row takes, less one (the
        inverse participation ratio), 0 to K - 1.
    consistency: mean KL(p || p'), p' of the same features with Gaussian noise of `noise` times
        their own deviation: similar texts get similar shares.
    entropy: mean of -sum_k p_k log p_k, in nats: favours a confident router.
    temperature: mean of (log sum_k exp logit_k)^2 (the z-loss of Zoph et al. 2022,
        arXiv:2202.08906): growing logits would cancel any temperature.
    """

    balance: float = 0.01
    efficiency: float = 0.01
    consistency: float = 0.1
    entropy: float = 0.01
    temperature: float = 0.001
    noise: float = 0.1

    def __call__(
        self,
        router: Router,
        features_SD: Tensor,
        task_S: Tensor,
        *,
        temperature: float | Tensor = 1.0,
        costs: Costs | None = None,
    ) -> dict[str, Tensor]:
        """Return the weighted terms by name, which add up to the loss; `costs` get "right"."""
        logits_SK = router(features_SD)
        log_p_SK = (logits_SK / temperature).log_softmax(1)
        p_SK, tasks = log_p_SK.exp(), logits_SK.shape[1]
        terms = {"right": functional.cross_entropy(logits_SK, task_S)}
        if costs is not None:
            loss_S = functional.cross_entropy(logits_SK.detach(), task_S, reduction="none")
            costs.add(loss_S, task_S)
        if self.balance:
            used_K = _one_hot(logits_SK.detach()).mean(0)
            terms["balance"] = self.balance * (tasks * (used_K * p_SK.mean(0)).sum() - 1)
        if self.efficiency:
            terms["efficiency"] = self.efficiency * (p_SK.square().sum(1).reciprocal().mean() - 1)
        if self.consistency:
            spread = features_SD.float().std(0, correction=0)
            noisy_SD = features_SD + self.noise * spread * torch.randn_like(features_SD)
            other_SK = (router(noisy_SD) / temperature).log_softmax(1)
            apart = functional.kl_div(other_SK, log_p_SK, log_target=True, reduction="batchmean")
            terms["consistency"] = self.consistency * apart
        if self.entropy:
            terms["entropy"] = self.entropy * -(p_SK * log_p_SK).sum(1).mean()
        if self.temperature:
            terms["temperature"] = self.temperature * logits_SK.logsumexp(1).square().mean()
        return terms
