"""The torch side of chat-sft and expert-sft: fine-tunes a language model on answers."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hotloop.config.common import AUTO
from hotloop.core.errors import ConfigError
from hotloop.core.units import bytes_, many
from hotloop.data.sampling.micro_batches import by_tokens
from hotloop.data.sampling.token_rows import FILLERS, TokenRows
from hotloop.models.adapters.attach import attach, heads
from hotloop.models.adapters.held import adapters_held
from hotloop.models.adapters.in_16_bits import lower
from hotloop.models.adapters.nf4_linear import quantise
from hotloop.models.adapters.nf4_skeleton import size_as_packed
from hotloop.models.attention_proofs import head_is_whole, keeps_apart
from hotloop.models.backbone import load_backbone
from hotloop.models.causal_lm import CHUNK, CausalLm
from hotloop.models.trainable_parameters import check_trainable
from hotloop.models.weights.discovery import find_model
from hotloop.models.weights.streaming_load import low_dtype
from hotloop.recipes.building.optimizers import optimizer_of, state_bytes
from hotloop.recipes.building.pretrained import (
    adapters_of,
    choices,
    first_row_text,
    is_frozen,
    isolation,
    pads_much,
)
from hotloop.recipes.sft.config import ExpertSftConfig
from hotloop.recipes.sft.metrics import judge_of, loss
from hotloop.recipes.sft.rows import form_of, order_of, prepare_data, sources_of
from hotloop.session.job import Job

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.data.sampling.text_rows import Texts
    from hotloop.data.sampling.token_rows import Form
    from hotloop.data.sampling.train_and_valid import Part
    from hotloop.data.tokenising.token_store import Store
    from hotloop.models.causal_lm import Way
    from hotloop.models.weights.discovery import FoundModel
    from hotloop.recipes.sft.config import SftConfig

__all__ = ["build", "order_of", "prepare_data", "rebuilt", "sources_of"]

_LOSES = {"all": "every token", "completion": "the answers", "assistant": "the answers"}


def build(config: SftConfig, data: Texts) -> Job:
    """Return the job that predicts each token that carries loss from the tokens before it."""
    training, base_model = config.training, find_model(str(config.model.name))

    def rows(
        part: Part, form: Form, *, shuffle: bool, beside: dict[str, Any] | None = None
    ) -> TokenRows:
        like = config.data.group_by_length and not config.data.packing
        return TokenRows(
            data.store,
            part.split,
            form=form,
            seed=config.seed,
            shuffle=shuffle,
            like=training.batch_size if like else None,
            rows=part.rows,
            beside=beside,
        )

    form = form_of(config, base_model)
    train = rows(data.train, form, shuffle=True)
    if config.data.layout == AUTO and not train.is_packed and pads_much(train, training):
        form = replace(form, layout="flat")
        train = rows(data.train, form, shuffle=True)
    low = partial(_low, config, base_model, form.layout == "flat")
    adapts = config.adapter.method != "none"
    of_file = data.store.splits[data.valid.split].rows
    valid = rows(data.valid, form, shuffle=False, beside={"row": np.arange(of_file)})
    return Job(
        name="expert-sft" if isinstance(config, ExpertSftConfig) else "chat-sft",
        model=lambda: _model(config, base_model, is_flat=form.layout == "flat"),
        loss=loss,
        optimizer=optimizer_of(training),
        state_bytes=state_bytes(training),
        train=train,
        valid=valid,
        seed=config.seed,
        cut=by_tokens,
        judge=judge_of(of_file),
        objective=f"{_LOSES[data.store.identity['loss']]} of texts by {base_model.fingerprint}",
        widest=train.widest,
        steady=adapters_held,
        choices=choices,
        fillers=FILLERS,
        learns_all=True,
        skeleton=lambda: _model(config, base_model, weights=False),
        frozen=low if adapts else None,
        trained=None if adapts else low,
        vocabulary=base_model.vocabulary,
        guesses=base_model.vocabulary,
        kept={"texts.json": json.dumps(_saved_texts(data.store, base_model), ensure_ascii=False)},
        example=partial(first_row_text, base_model, train),
        facts={
            "objective": f"the next token, where {_LOSES[data.store.identity['loss']]} stand",
            "data": _row_counts(config, data, train),
            "trains": _trainable_text(config, base_model),
            "logits": _logits_text(config, base_model),
        },
    )


def rebuilt(config: SftConfig, kept: Mapping[str, str]) -> CausalLm:
    """Return the model of a run without the weights that the run learned; the caller loads them.

    Raises DataError where the frozen weights have changed since the run.
    """
    saved, base_model = json.loads(kept["texts.json"]), find_model(str(config.model.name))
    return _model(config, base_model, weights=is_frozen(config.adapter, base_model, saved["model"]))


def _low(
    config: SftConfig, base_model: FoundModel, is_flat: bool, dtype: torch.dtype, weights: bool
) -> CausalLm:
    return _model(config, base_model, weights=weights, is_flat=is_flat, low=dtype)


def _model(
    config: SftConfig,
    base_model: FoundModel,
    *,
    weights: bool = True,
    is_flat: bool = False,
    low: torch.dtype | None = None,
) -> CausalLm:
    """Return the model on the CPU, with the configured adapters.

    `weights=False` reads no pretrained weights, for forecasts; weights that would be packed then
    have their packed sizes. `low` is the dtype of matrices: of frozen ones, if there are adapters.
    Raises ConfigError for a model whose head hotloop does not know, or that mixes texts in flat
    batches.
    """
    packs = config.adapter.quantization == "nf4"
    backbone = load_backbone(
        base_model,
        head=True,
        isolation=isolation(),
        weights=weights,
        low=None if packs else low,
        trains=config.adapter.method == "none",
        seed=config.seed,
    )
    backbone.is_naive = config.model.attention == "naive"
    model = CausalLm(
        backbone,
        cross_entropy=_cross_entropy_kind(config, base_model),
        label_smoothing=config.model.label_smoothing,
        z_loss=config.model.z_loss,
    )
    if weights and not head_is_whole(model):
        raise ConfigError(
            f"{base_model.name} does something between its last layer and its logits that hotloop "
            "does not know: take another architecture"
        )
    if weights and is_flat and not keeps_apart(backbone):
        raise ConfigError(f"{base_model.name} mixes texts that share a row: data.layout=padded")
    if packs:
        pack = quantise if weights else size_as_packed
        pack(backbone.model, keep=heads(backbone.model))
        if low is not None:
            lower(backbone.model, low, stored=low_dtype(base_model), is_filled=True)
    if config.adapter.method != "none":
        attach(backbone.model, adapters_of(config.adapter, config.seed))
    return model


def _logits_bytes(config: SftConfig, base_model: FoundModel) -> int:
    training = config.training
    rows = training.batch_size // training.accumulation
    return 4 * rows * config.data.max_length * base_model.vocabulary


def _cross_entropy_kind(config: SftConfig, base_model: FoundModel) -> Way:
    if config.model.cross_entropy != "auto":
        return config.model.cross_entropy
    return "fused" if _logits_bytes(config, base_model) > CHUNK else "whole"


def _logits_text(config: SftConfig, base_model: FoundModel) -> str:
    most = bytes_(_logits_bytes(config, base_model))
    how = "in parts" if _cross_entropy_kind(config, base_model) == "fused" else "all at once"
    return f"only where a label carries loss, {how} (a micro batch has {most} of them at most)"


def _saved_texts(store: Store, base_model: FoundModel) -> dict[str, Any]:
    """Return the contents of texts.json: the model, and the layout of the rows."""
    own = store.identity
    return {
        "model": base_model.fingerprint,
        **{key: own[key] for key in ("shape", "fields", "loss", "marks") if key in own},
    }


def _row_counts(config: SftConfig, data: Texts, train: TokenRows) -> str:
    how = "padded to their longest row"
    if config.data.packing:
        how = "of packed rows, texts kept apart"
    elif train.form.layout == "flat":
        how = "without padding"
    return (
        f"{many(len(train), 'training row')} and {many(len(data.valid.rows), 'validation row')}, "
        f"up to {train.longest} tokens; batches {how}"
    )


def _trainable_text(config: SftConfig, base_model: FoundModel) -> str:
    """Check that the trainable parameters match the settings, and return them in words."""
    with torch.device("meta"):
        model = _model(config, base_model, weights=False)
    if config.adapter.method == "none":
        return f"all {check_trainable(model, means='all').numbers:,} parameters"
    return str(check_trainable(model, means="adapters"))
