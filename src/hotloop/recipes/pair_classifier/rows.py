"""Turns the rows of pair-classifier into tokens, and says how tokens become tensors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hotloop.config.common import AUTO
from hotloop.data.readers.records import find_sources
from hotloop.data.sampling.labelled_rows import labelled
from hotloop.data.sampling.token_rows import Form
from hotloop.data.tokenising.plan import TokenizeRequest
from hotloop.data.tokenising.progress import told
from hotloop.data.tokenising.rows import Packing
from hotloop.data.tokenising.tokenizer_files import find_tokenizer
from hotloop.models.weights.discovery import find_model
from hotloop.recipes.building.pretrained import padding_of, refuse_longer

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.data.sampling.labelled_rows import Labelled
    from hotloop.models.weights.discovery import FoundModel
    from hotloop.recipes.pair_classifier.config import PairClassifierConfig

__all__ = ["SAID", "form_of", "order_of", "prepare_data"]

SAID: Final = {  # option of `hotloop data` -> what a user of the recipe types instead
    "--bad skip": "data.bad=skip",
    "--max-length": "data.max_length",
    "--fields text_a": "data.text_a=KEY",
    "--fields text_b": "data.text_b=KEY",
    "--fields label": "data.label=KEY",
    "--fields task": "data.group=KEY",
    "--fields report": "data.report_by=KEY",
}


def prepare_data(
    config: PairClassifierConfig,
    *,
    cache: Path,
    progress: Callable[[str, float], None] | None = None,
    poll: Callable[[], None] | None = None,
) -> Labelled:
    """Return the tokenised rows of the configured files; tokens come from the cache if possible.

    Raises DataError with the file, line and key of a row that cannot be used, and ConfigError where
    data.max_length exceeds the positions of the model.
    """
    data, base_model = config.data, find_model(str(config.model.name))
    fold, folds = config.cv.fold, config.cv.folds
    refuse_longer(data.max_length, base_model)

    sources = find_sources([str(data.path)], by={})
    rows = labelled(
        sources.files,
        () if data.valid_path is None else find_sources([data.valid_path], by={}).files,
        order_of(config, base_model),
        cache=cache,
        share=data.validation_share,
        fold=None if fold is None or folds is None else (fold, folds),
        seed=config.seed,
        notify=told(progress, poll),
    )
    return replace(rows, notes=(*sources.notes, *rows.notes))


def order_of(config: PairClassifierConfig, base_model: FoundModel) -> TokenizeRequest:
    """Return the tokenizing request for the configuration and the model's tokenizer."""
    data = config.data
    beside = {"label": data.label, "task": data.group, "report": data.report_by}
    keys = {"text_a": data.text_a, **beside}
    fields = {part: key for part, key in keys.items() if key is not None}
    if data.text_b != AUTO:
        fields["text_b"] = data.text_b or ""
    return TokenizeRequest(
        vocabulary=find_tokenizer(base_model.name),
        out=Path(),  # unused: the cache names the folder by its contents
        packing=Packing(longest=data.max_length),
        shape="pair",
        fields=fields,
        policy=data.bad,
        said=SAID,
    )


def form_of(config: PairClassifierConfig, base_model: FoundModel) -> Form:
    """Return the form of batches; layout=auto starts padded, and `build` may change it to flat."""
    is_flat = config.data.layout == "flat"
    return Form(
        pad=padding_of(base_model),
        layout="flat" if is_flat else "padded",
        round_to=config.data.pad_to_multiple_of,
        has_labels=False,
    )
