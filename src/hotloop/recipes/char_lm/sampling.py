"""Samples text from a trained char-lm model, by the method of its objective."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch

from hotloop.core.errors import UsageError
from hotloop.data.tokenising.char_vocabulary import CharVocabulary
from hotloop.models.denoising import FREE, denoise
from hotloop.models.sampling import sample as continue_text
from hotloop.models.sedd import Sedd
from hotloop.recipes.char_lm.diffusion import noise_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from hotloop.recipes.building.sampling_options import SamplingOptions
    from hotloop.recipes.char_lm.config import CharLmConfig

__all__ = ["sample"]

Progress = Callable[[int, int], None]  # (done, all) characters or denoising steps

LENGTH, TEMPERATURE = 500, 0.8  # defaults of next-char
STEPS = 128  # sampling.steps of SEDD's configs/config.yaml, 2026-11


def sample(
    config: CharLmConfig,
    model: nn.Module,
    kept: Mapping[str, str],
    options: SamplingOptions,
    *,
    progress: Progress | None = None,
) -> list[str]:
    """Return whole texts, including prompt and suffix.

    `kept` maps the names of the run's small files to their texts. Raises UsageError for an option
    that the model's objective does not have.
    """
    draw = _denoise if config.objective == "diffusion" else _continue
    vocabulary = CharVocabulary.from_json(json.loads(kept["vocabulary.json"]))
    return draw(config, model, vocabulary, options, progress)


def _continue(
    config: CharLmConfig,
    model: nn.Module,
    vocabulary: CharVocabulary,
    options: SamplingOptions,
    progress: Progress | None,
) -> list[str]:
    """Predict one character after another; without a prompt, start after a newline."""
    for name, value in (("--steps", options.steps), ("--suffix", options.suffix)):
        if value is not None:
            raise UsageError(
                f"{name} is for runs with objective=diffusion; this one writes from left to right, "
                f"one character at a time: leave {name} out"
            )
    ids = continue_text(
        model,
        _ids(vocabulary, options.prompt or "\n"),
        samples=options.samples,
        length=LENGTH if options.length is None else options.length,
        temperature=TEMPERATURE if options.temperature is None else options.temperature,
        seed=options.seed,
        progress=progress,
    )
    return [(options.prompt or "") + text for text in _texts(vocabulary, ids)]


def _denoise(
    config: CharLmConfig,
    model: nn.Module,
    vocabulary: CharVocabulary,
    options: SamplingOptions,
    progress: Progress | None,
) -> list[str]:
    """Denoise a window of the context's length, as in training, and cut it after the text."""
    assert isinstance(model, Sedd)
    if options.temperature is not None:
        raise UsageError(
            "--temperature is for runs with objective=next-char; denoising draws from the learned "
            "ratios as they are: leave --temperature out (more --steps make better text)"
        )
    prompt, suffix = options.prompt or "", options.suffix or ""
    context, fixed = config.model.context, len(prompt) + len(suffix)
    length = max(context - fixed, 1) if options.length is None else options.length
    if fixed + length > context:
        raise UsageError(
            f"{len(prompt)} characters of --prompt, {length} of --length and {len(suffix)} of "
            f"--suffix are {fixed + length}, but this run denoises windows of {context}: ask for "
            "fewer, or train with a larger model.context"
        )
    window = torch.full((context,), FREE)
    window[: len(prompt)] = _ids(vocabulary, prompt)
    window[len(prompt) + length : fixed + length] = _ids(vocabulary, suffix)
    ids = denoise(
        model,
        window,
        levels=noise_of(config, len(vocabulary)).levels(options.steps or STEPS),
        samples=options.samples,
        seed=options.seed,
        progress=progress,
    )
    drawn = ids[:, len(prompt) : len(prompt) + length]
    return [prompt + text + suffix for text in _texts(vocabulary, drawn)]


def _ids(vocabulary: CharVocabulary, text: str) -> Tensor:
    return torch.from_numpy(vocabulary.encode(text).astype("int64"))


def _texts(vocabulary: CharVocabulary, ids: Tensor) -> list[str]:
    return [vocabulary.decode(row.numpy().astype("uint16")) for row in ids]
