"""A classifier of texts: a backbone without its language-model head, pooling and a head."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.models.backbone import Backbone
    from hotloop.models.pooling import Pooling

__all__ = ["Classifier"]

_SPREAD = 0.02  # standard deviation of new weights, as in BERT (Devlin et al. 2019) and GPT-2


class Classifier(nn.Module):
    """Batches, as `Backbone` takes them -> logits [rows, classes].

    The head is one linear layer, or with `hidden` sizes a GELU network; dropout precedes each of
    its layers. Rows are those of a padded batch, or the segments of the batch's boundaries.
    """

    def __init__(
        self,
        backbone: Backbone,
        pooling: Pooling,
        *,
        classes: int,
        hidden: Sequence[int] = (),
        dropout: float = 0.0,
    ) -> None:
        """Draw the head's weights from torch's own stream."""
        super().__init__()
        self.backbone, self.pooling = backbone, pooling
        layers: list[nn.Module] = []
        for width, out in pairwise((backbone.width, *hidden, classes)):
            layer = nn.Linear(width, out)
            nn.init.normal_(layer.weight, std=_SPREAD)
            nn.init.zeros_(layer.bias)
            layers += [nn.GELU()] if layers else []
            layers += [nn.Dropout(dropout), layer] if dropout else [layer]
        self.head = nn.Sequential(*layers)

    def forward(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the logits of each row, [rows, classes]."""
        pooled = self.pooling(self.backbone(batch), batch)
        return self.head(pooled.to(self.head[-1].weight.dtype))  # type: ignore[no-any-return]
