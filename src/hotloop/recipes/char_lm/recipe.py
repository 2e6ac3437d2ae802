"""The char-lm recipe: a character-level language model on text files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hotloop.data.readers.clean_text import find_texts
from hotloop.data.sampling.context_windows import Windows
from hotloop.data.tokenising.char_corpus import TokenSet, prepare
from hotloop.data.tokenising.char_vocabulary import CharVocabulary
from hotloop.models.gpt import Gpt, next_token_loss
from hotloop.recipes.building.optimizers import optimizer_of, state_bytes
from hotloop.recipes.char_lm.diffusion import build_sedd, to_denoise
from hotloop.session.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from hotloop.models.sedd import Sedd
    from hotloop.recipes.char_lm.config import CharLmConfig

__all__ = ["build", "build_model", "prepare_data", "rebuilt"]

EXAMPLE = 60  # characters in the excerpt of the first sample


def prepare_data(
    config: CharLmConfig,
    *,
    cache: Path,
    progress: Callable[[str, float], None] | None = None,
    poll: Callable[[], None] | None = None,
) -> TokenSet:
    """Return the token set of the configured text, from the cache where it exists.

    Raises DataError with the file, line and byte that cannot be read.
    """
    path = config.data.path
    if config.dataset is not None:
        path = config.data.sets[config.dataset]
    return prepare(
        find_texts(path),
        cache=cache,
        max_chars=config.data.max_chars,
        validation_share=config.data.validation_share,
        invalid=config.data.invalid,
        progress=progress,
        poll=poll,
    )


def build_model(config: CharLmConfig, vocabulary: int) -> Gpt | Sedd:
    """Return a new model of the configured objective for `vocabulary` characters."""
    if config.objective == "diffusion":
        return build_sedd(config, vocabulary)
    return Gpt(vocabulary=vocabulary, **config.model.sizes)


def rebuilt(config: CharLmConfig, kept: Mapping[str, str]) -> Gpt | Sedd:
    """Return the model of a run without the run's weights; the caller loads them."""
    return build_model(config, len(CharVocabulary.from_json(json.loads(kept["vocabulary.json"]))))


def _character_counts(data: TokenSet) -> str:
    unseen = data.about["unseen"]
    return (
        f"{len(data.train):,} training and {len(data.valid):,} validation characters, "
        f"{len(data.vocabulary)} in the vocabulary"
        + f", {unseen} unseen in validation"
        * bool(unseen)
    )


def _excerpt(data: TokenSet, start: int) -> str:
    return data.vocabulary.decode(data.train[start : start + EXAMPLE])


def build(config: CharLmConfig, data: TokenSet) -> Job:
    """Return the job that trains the configured objective on windows of the token set."""
    training, context = config.training, config.model.context
    size = len(data.vocabulary)

    def windows(tokens: NDArray[np.uint16], *, shuffle: bool) -> Windows:
        return Windows(
            tokens,
            tokens_fingerprint=data.fingerprint,
            context=context,
            seed=config.seed,
            shuffle=shuffle,
        )

    train, valid = windows(data.train, shuffle=True), windows(data.valid, shuffle=False)
    job = Job(
        name="char-lm",
        model=lambda: build_model(config, size),
        loss=next_token_loss,
        optimizer=optimizer_of(training),
        state_bytes=state_bytes(training),
        train=train,
        valid=valid,
        seed=config.seed,
        objective=config.objective,
        vocabulary=size,
        guesses=size,
        kept={"vocabulary.json": json.dumps(data.vocabulary.to_json(), ensure_ascii=False)},
        example=lambda: _excerpt(data, int(train.ids(0, 0, 1)[0])),
        facts={
            "objective": "the next character, given those before it",
            "data": _character_counts(data),
        },
    )
    if config.objective == "diffusion":
        return to_denoise(job, config, size, train=train, valid=valid)
    return job
