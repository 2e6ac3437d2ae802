"""Shared parts of the recipes on pretrained text models: adapters, attention, an example row."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hotloop.core.env import ENV
from hotloop.core.errors import ConfigError, DataError
from hotloop.data.sampling.padded_or_flat import MOST_PADDING, padding_share
from hotloop.data.tokenising.tokenizer_files import find_tokenizer
from hotloop.machine.measured_choices import Ways
from hotloop.models.adapters.config import ALL_LINEAR, AdapterConfig
from hotloop.models.attention.kernel_choice import Isolation

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from torch import nn

    from hotloop.config.common import Training
    from hotloop.config.text_common import Adapter
    from hotloop.data.sampling.token_rows import TokenRows
    from hotloop.models.backbone import Backbone
    from hotloop.models.weights.discovery import FoundModel

__all__ = [
    "adapters_of",
    "choices",
    "first_row_text",
    "is_frozen",
    "isolation",
    "padding_of",
    "pads_much",
    "refuse_longer",
]

_SHOWN = 30  # tokens of the first row


def isolation() -> Isolation:
    """Return the isolation of texts in attention, which remembers the fastest kernels measured."""
    return Isolation(clock=time.perf_counter, known=Ways(ENV.cache / "forecasts"))


def pads_much(rows: TokenRows, training: Training) -> bool:
    """Return whether padding costs more than the saved attention calls: above MOST_PADDING."""
    micro = training.batch_size // training.accumulation
    return padding_share(rows, batch=training.batch_size, micro=micro) > MOST_PADDING


def choices(model: nn.Module) -> MutableMapping[str, str]:
    """Return the kernels that the model's backbone chose by measurement."""
    backbone: Backbone = model.backbone  # type: ignore[assignment]
    return backbone.isolation.chosen


def adapters_of(adapter: Adapter, seed: int) -> AdapterConfig:
    """Return the adapter configuration of the settings; the method must not be "none"."""
    assert adapter.method != "none"
    names = tuple(name.strip() for name in adapter.targets.split(","))
    return AdapterConfig(
        kind=adapter.method,
        rank=adapter.rank,
        alpha=adapter.alpha,
        dropout=adapter.dropout,
        targets=ALL_LINEAR if names == (ALL_LINEAR,) else names,
        seed=seed,
    )


def is_frozen(adapter: Adapter, base_model: FoundModel, fingerprint: str) -> bool:
    """Return whether the run trained adapters only, so that it needs the pretrained weights.

    Raises DataError where their fingerprint is not the `fingerprint` that the run recorded.
    """
    if adapter.method == "none":
        return False
    if base_model.fingerprint != fingerprint:
        raise DataError(
            f"{base_model.folder} was changed since the run: what it learned fits the weights that "
            "were there; put them back"
        )
    return True


def refuse_longer(longest: int, base_model: FoundModel) -> None:
    """Raise ConfigError where data.max_length exceeds the positions of the model."""
    if base_model.positions is not None and longest > base_model.positions:
        raise ConfigError(
            f"data.max_length={longest}, but {base_model.name} has {base_model.positions} "
            f"positions: data.max_length={base_model.positions}"
        )


def padding_of(base_model: FoundModel) -> int:
    """Return a valid token id for padding: the model's own, else 0."""
    pad: Any = base_model.config.get("pad_token_id")
    return pad if isinstance(pad, int) and 0 <= pad < base_model.vocabulary else 0


def first_row_text(base_model: FoundModel, rows: TokenRows) -> str:
    """Return the beginning of a run's first row as text, with its special tokens."""
    ids = rows.batch(0, 0, 1).tensors["input_ids"][0, :_SHOWN].tolist()
    tokenizer = find_tokenizer(base_model.name).tokenizer()
    return str(tokenizer.decode(ids, skip_special_tokens=False))
