"""Turns the rows of chat-sft and expert-sft into tokens, and says how tokens become tensors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.config.common import AUTO
from hotloop.core.errors import ConfigError
from hotloop.data.readers.records import Sources, find_sources
from hotloop.data.sampling.text_rows import texts
from hotloop.data.sampling.token_rows import Form
from hotloop.data.tokenising.plan import TokenizeRequest
from hotloop.data.tokenising.progress import told
from hotloop.data.tokenising.rows import Packing
from hotloop.data.tokenising.tokenizer_files import find_tokenizer
from hotloop.models.weights.discovery import find_model
from hotloop.recipes.building.pretrained import padding_of, refuse_longer
from hotloop.recipes.sft.config import SAID

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.data.readers.portions import RecordFile
    from hotloop.data.sampling.text_rows import Texts
    from hotloop.models.weights.discovery import FoundModel
    from hotloop.recipes.sft.config import SftConfig

__all__ = ["form_of", "order_of", "prepare_data", "sources_of"]


def prepare_data(
    config: SftConfig,
    *,
    cache: Path,
    progress: Callable[[str, float], None] | None = None,
    poll: Callable[[], None] | None = None,
) -> Texts:
    """Return the tokenised rows of the configured files; tokens come from the cache if possible.

    Raises DataError with the file, line and key of a row that cannot be used, and ConfigError for
    settings that the model or the rows cannot meet.
    """
    data, base_model = config.data, find_model(str(config.model.name))
    refuse_longer(data.max_length, base_model)
    train, valid = sources_of(config)
    rows = texts(
        train.files,
        valid,
        order_of(config, base_model),
        cache=cache,
        folder=None if data.cache is None else Path(data.cache),
        share=data.validation_share,
        seed=config.seed,
        vocabulary=base_model.vocabulary,
        notify=told(progress, poll),
    )
    if data.loss == "answers" and rows.store.identity["loss"] == "all":
        raise ConfigError(
            f"data.loss=answers, but rows of shape {rows.store.identity['shape']} have none: name "
            "the key of the answer with data.response, or leave data.loss out"
        )
    return replace(rows, notes=(*train.notes, *rows.notes))


def sources_of(config: SftConfig) -> tuple[Sources, Sequence[RecordFile]]:
    """Return what is found to train on, and the files to validate on."""
    data = config.data
    valid = () if data.valid_path is None else find_sources([data.valid_path], by={}).files
    return find_sources([str(data.path)], by={}), valid


def order_of(config: SftConfig, base_model: FoundModel) -> TokenizeRequest:
    """Return the tokenizing request for the configuration and the model's tokenizer."""
    data = config.data
    length = data.max_length
    return TokenizeRequest(
        vocabulary=find_tokenizer(base_model.name),
        out=Path(),  # unused: the cache names the folder by its contents
        packing=Packing(tokens=length) if data.packing else Packing(longest=length),
        fields=data.fields,
        ignored=tuple(key.strip() for key in (data.ignore or "").split(",")),
        loss=None if data.loss == AUTO else data.loss,
        template=None if data.template == AUTO else data.template,
        policy=data.bad,
        said=SAID,
    )


def form_of(config: SftConfig, base_model: FoundModel) -> Form:
    """Return the form of batches; packed rows have one length and need no flat layout.

    layout=auto starts padded, and `build` may change it to flat.
    """
    is_flat = config.data.layout == "flat" and not config.data.packing
    return Form(
        pad=padding_of(base_model),
        layout="flat" if is_flat else "padded",
        round_to=config.data.pad_to_multiple_of,
    )
