"""The rows of pair-classifier: how they become tokens, and tensors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop.core.errors import ConfigError
from hotloop.data.labelled import labelled
from hotloop.data.preparing import Order
from hotloop.data.records import find_sources
from hotloop.data.rows import Packing
from hotloop.data.tokenizer import find_tokenizer
from hotloop.data.tokenrows import Form
from hotloop.models.find import find_model
from hotloop.recipes.resolving import AUTO

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.data.labelled import Labelled
    from hotloop.data.pace import Progress
    from hotloop.models.find import FoundModel
    from hotloop.recipes.pair_classifier_config import PairClassifierConfig

__all__ = ["form_of", "order_of", "prepare_data"]


def prepare_data(
    config: PairClassifierConfig,
    *,
    cache: Path,
    progress: Callable[[str, float], None] | None = None,
    poll: Callable[[], None] | None = None,
) -> Labelled:
    """Return the rows of the configured files, tokenised once and kept in the cache.

    Raises DataError naming file, line and key of what cannot be used.
    """
    data, found = config.data, find_model(str(config.model.name))
    fold, folds = config.cv.fold, config.cv.folds
    if found.positions is not None and data.max_length > found.positions:
        raise ConfigError(
            f"data.max_length={data.max_length}, but {found.name} has {found.positions} positions:"
            f" data.max_length={found.positions}"
        )

    def tell(at: Progress) -> None:
        if poll is not None:
            poll()
        if progress is not None:
            progress(at.what, at.share or 0.0)

    return labelled(
        find_sources([str(data.path)]).files,
        () if data.valid_path is None else find_sources([data.valid_path]).files,
        order_of(config, found),
        cache=cache,
        share=data.validation_share,
        fold=None if fold is None or folds is None else (fold, folds),
        seed=config.seed,
        tell=tell,
    )


def order_of(config: PairClassifierConfig, found: FoundModel) -> Order:
    """Return how rows become tokens: those of the configuration and of the model's tokenizer."""
    data = config.data
    named = {"text_a": data.text_a, "label": data.label, "task": data.group}
    fields = {part: key for part, key in named.items() if key is not None}
    if data.text_b != AUTO:
        fields["text_b"] = data.text_b or ""
    return Order(
        vocabulary=find_tokenizer(found.name),
        out=Path(),  # in the cache, by what they are
        packing=Packing(longest=data.max_length),
        shape="pair",
        fields=fields,
        policy=data.bad,
    )


def form_of(config: PairClassifierConfig, found: FoundModel) -> Form:
    """Return how rows become tensors. What fills padding matters to nobody, but must be an id."""
    pad: Any = found.config.get("pad_token_id")
    is_id = isinstance(pad, int) and 0 <= pad < found.vocabulary
    return Form(pad=pad if is_id else 0, layout=config.data.layout, has_labels=False)
