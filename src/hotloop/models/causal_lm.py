"""A language model's loss, with logits only where a label carries loss.

Dims: B rows, T positions, D width, V vocabulary, N = B * T, n = positions that carry loss.
A chat's prompt, padding and the first token of each document carry no loss: their logits over the
whole vocabulary are never computed (skip-unused-head). Loss and gradients are those of
the shifted cross entropy of all positions, up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional

from hotloop.core.errors import ConfigError, did_you_mean
from hotloop.models.adapters.in_16_bits import LowLinear
from hotloop.models.fused_cross_entropy import LossTerms, linear_cross_entropy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.models.backbone import Backbone

__all__ = ["CHUNK", "WAYS", "CausalLm", "Judged", "Way"]

Way = Literal["whole", "fused"]
WAYS: Final[tuple[Way, ...]] = get_args(Way)
_NO_LOSS: Final = -100
_SCALED: Final = ("logit_scale", "logits_scaling", "lm_head_multiplier")  # Cohere, Granite, Falcon
CHUNK: Final = 1 << 28  # bytes: 256 rows of Gemma's 262,144 ids


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged:
    """The predictions where a label carries loss, given the true tokens before; [n] each."""

    loss: Tensor  # mean, a scalar
    at: Tensor  # index of the token before, in [B * T]
    label: Tensor
    said: Tensor  # the likeliest token


class CausalLm(nn.Module):
    """Batches, as `Backbone` takes them, with labels [B, T] -> their mean loss in nats.

    Labels are at their own token; -100 carries no loss. `targets` in a batch, a Python int, is the
    number of labels with loss: with it the host never waits for the device. `fused` computes the
    logits in parts and holds one part at a time (models.fused_cross_entropy); a head that is more
    than a linear layer then computes each part twice.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        cross_entropy: Way = "whole",
        chunk_bytes: int = CHUNK,
        label_smoothing: float = 0.0,
        z_loss: float = 0.0,
    ) -> None:
        """Raise ConfigError for a model without a head, or with one that scales its logits.

        A fused loss holds `chunk_bytes` of float32 logits at a time. Label smoothing and z-loss are
        terms of what is trained, not of what is judged; with a head that is more than a linear
        layer, a forward pass with them raises ConfigError.
        """
        super().__init__()
        if cross_entropy not in WAYS:
            raise ConfigError(
                f"cross_entropy: expected one of {', '.join(WAYS)}, got {cross_entropy!r}"
                f"{did_you_mean(cross_entropy, WAYS)}"
            )
        config = backbone.model.config
        if backbone.head is None:
            raise ConfigError(f"{config.model_type} was loaded without its head: load it with")
        if odd := [key for key in _SCALED if getattr(config, key, None) not in (None, 1, 1.0)]:
            raise ConfigError(
                f"{config.model_type} scales its logits ({odd[0]}={getattr(config, odd[0])}), "
                "which hotloop does not do: take another architecture"
            )
        self.backbone, self.cross_entropy = backbone, cross_entropy
        self._rows = max(1, chunk_bytes // (4 * backbone.vocabulary))
        self.softcap: float | None = getattr(config, "final_logit_softcapping", None)
        self._terms = LossTerms(
            softcap=self.softcap, label_smoothing=label_smoothing, z_loss=z_loss
        )

    def logits(self, batch: Mapping[str, Any]) -> Tensor:
        """Return all logits, [B, T, V]."""
        return self._logits(self.backbone(batch))

    def forward(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the mean loss of the labels that carry loss, a scalar; 0 without any."""
        labels_BT, targets = batch["labels"], batch.get("targets")
        next_N: Tensor = functional.pad(labels_BT[:, 1:], (0, 1), value=_NO_LOSS).flatten()
        at_n = _carrying(next_N, targets)
        hidden_nD = self.backbone(batch).flatten(0, 1)[at_n]
        total = self._total(hidden_nD, next_N[at_n])
        count = (next_N != _NO_LOSS).sum().clamp(min=1) if targets is None else max(targets, 1)
        return total / count

    def losses(self, batch: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
        """Return the loss of each label that carries loss, and the index of the token before; [n].

        Indices are in [B * T]. If `targets` is larger than the number of such labels, the rest is
        0. Logits that take more than `chunk_bytes` are made in parts if the head is frozen.
        """
        next_N = functional.pad(batch["labels"][:, 1:], (0, 1), value=_NO_LOSS).flatten()
        at_n = _carrying(next_N, batch.get("targets"))
        hidden_nD, label_n = self.backbone(batch).flatten(0, 1)[at_n], next_N[at_n]
        head: Any = self.backbone.head
        if len(at_n) > self._rows and self.head_is_linear and not head.weight.requires_grad:
            losses_n = linear_cross_entropy(
                hidden_nD,
                head.weight,
                label_n,
                bias_V=head.bias,
                terms=LossTerms(softcap=self.softcap),
                rows=self._rows,
                reduction="none",
            )
            return losses_n, at_n
        logits_nV = self._logits(hidden_nD).float()
        return functional.cross_entropy(logits_nV, label_n, reduction="none"), at_n

    def judged(self, batch: Mapping[str, Any]) -> Judged:
        """Return the loss, and the likeliest token at each position that carries loss.

        `targets` in the batch, if there, must be the number of these positions.
        """
        labels_BT = batch["labels"]
        next_N = functional.pad(labels_BT[:, 1:], (0, 1), value=_NO_LOSS).flatten()
        at_n = _carrying(next_N, batch.get("targets"))
        hidden_nD, label_n = self.backbone(batch).flatten(0, 1)[at_n], next_N[at_n]
        total, likeliest = hidden_nD.new_zeros((), dtype=torch.float32), [label_n[:0]]
        chunks = torch.split(hidden_nD, self._rows), torch.split(label_n, self._rows)
        for hidden_mD, label_m in zip(*chunks, strict=True):
            logits_mV = self._logits(hidden_mD).float()
            total += functional.cross_entropy(logits_mV, label_m, reduction="sum")
            likeliest.append(logits_mV.argmax(-1))
        return Judged(
            loss=total / max(1, len(at_n)), at=at_n, label=label_n, said=torch.cat(likeliest)
        )

    @property
    def head_is_linear(self) -> bool:
        """Return whether the head is a linear layer and nothing else, such as an adapter."""
        return type(self.backbone.head) in (nn.Linear, LowLinear)

    def _logits(self, hidden: Tensor) -> Tensor:
        assert self.backbone.head is not None
        logits: Tensor = self.backbone.head(hidden)
        if self.softcap is not None:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        return logits

    def _loss(self, hidden_nD: Tensor, labels_n: Tensor) -> Tensor:
        logits_nV = self._logits(hidden_nD).float()
        return functional.cross_entropy(logits_nV, labels_n, reduction="sum")

    def _total(self, hidden_nD: Tensor, labels_n: Tensor) -> Tensor:
        has_terms = self._terms.label_smoothing > 0 or self._terms.z_loss > 0
        if self.cross_entropy == "whole" and not has_terms:
            return self._loss(hidden_nD, labels_n)
        if self.head_is_linear:
            head: Any = self.backbone.head
            rows = self._rows if self.cross_entropy == "fused" else len(labels_n)
            return linear_cross_entropy(
                hidden_nD, head.weight, labels_n, bias_V=head.bias, terms=self._terms, rows=rows
            )
        if has_terms:
            raise ConfigError(
                "label smoothing and z-loss need a head that is a linear layer: leave them out, or "
                "put no adapter on the head"
            )
        from torch.utils.checkpoint import checkpoint  # its first call imports torch's compiler

        again = partial(checkpoint, self._loss, use_reentrant=False, preserve_rng_state=False)
        parts = torch.split(hidden_nD, self._rows), torch.split(labels_n, self._rows)
        return torch.stack([again(*part) for part in zip(*parts, strict=True)]).sum()


def _carrying(next_N: Tensor, targets: int | None) -> Tensor:
    """Return the positions whose next label carries loss, [n].

    With `targets` the host need not ask the device for their number: if there are fewer, the
    batch's last position, which has no next label, fills the rest. A forecast counts all positions.
    """
    carries_N = next_N != _NO_LOSS
    if targets is not None:
        return torch.nonzero_static(carries_N, size=targets, fill_value=len(next_N) - 1)[:, 0]
    if isinstance(next_N, FakeTensor):
        return torch.arange(len(next_N))
    return carries_N.nonzero()[:, 0]
