"""Draws text from a trained char-lm model, in the way of its objective."""

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

LENGTH, TEMPERATURE = 500, 0.8  # of next-char
STEPS = 128  # sampling.steps of SEDD's configs/config.yaml, 2026-11


def sample(
    config: CharLmConfig,
    model: nn.Module,
    kept: Mapping[str, str],
    wanted: SamplingOptions,
    *,
    progress: Progress | None = None,
) -> list[str]:
    """Return whole texts, prompt and suffix included; `kept` are the texts that the run keeps.

    Raises UsageError for what the model's objective cannot do.
    """
    draw = _denoised if config.objective == "diffusion" else _continued
    vocabulary = CharVocabulary.from_json(json.loads(kept["vocabulary.json"]))
    return draw(config, model, vocabulary, wanted, progress)


def _continued(
    config: CharLmConfig,
    model: nn.Module,
    vocabulary: CharVocabulary,
    wanted: SamplingOptions,
    progress: Progress | None,
) -> list[str]:
    """Predict one character after the other; without a prompt, after a new line."""
    for name, value in (("--steps", wanted.steps), ("--suffix", wanted.suffix)):
        if value is not None:
            raise UsageError(
                f"{name} is for runs with objective=diffusion; this one writes from left to right, "
                f"one character at a time: leave {name} out"
            )
    ids = continue_text(
        model,
        _ids(vocabulary, wanted.prompt or "\n"),
        samples=wanted.samples,
        length=LENGTH if wanted.length is None else wanted.length,
        temperature=TEMPERATURE if wanted.temperature is None else wanted.temperature,
        seed=wanted.seed,
        progress=progress,
    )
    return [(wanted.prompt or "") + text for text in _texts(vocabulary, ids)]


def _denoised(
    config: CharLmConfig,
    model: nn.Module,
    vocabulary: CharVocabulary,
    wanted: SamplingOptions,
    progress: Progress | None,
) -> list[str]:
    """Denoise a window of the context's length, as in training; what is beyond the end is cut."""
    assert isinstance(model, Sedd)
    if wanted.temperature is not None:
        raise UsageError(
            "--temperature is for runs with objective=next-char; denoising draws from the learned "
            "ratios as they are: leave --temperature out (more --steps make better text)"
        )
    prompt, suffix = wanted.prompt or "", wanted.suffix or ""
    context, given = config.model.context, len(prompt) + len(suffix)
    length = max(context - given, 1) if wanted.length is None else wanted.length
    if given + length > context:
        raise UsageError(
            f"{len(prompt)} characters of --prompt, {length} of --length and {len(suffix)} of "
            f"--suffix are {given + length}, but this run denoises windows of {context}: ask for "
            "fewer, or train with a larger model.context"
        )
    window = torch.full((context,), FREE)
    window[: len(prompt)] = _ids(vocabulary, prompt)
    window[len(prompt) + length : given + length] = _ids(vocabulary, suffix)
    ids = denoise(
        model,
        window,
        levels=noise_of(config, len(vocabulary)).levels(wanted.steps or STEPS),
        samples=wanted.samples,
        seed=wanted.seed,
        progress=progress,
    )
    drawn = ids[:, len(prompt) : len(prompt) + length]
    return [prompt + text + suffix for text in _texts(vocabulary, drawn)]


def _ids(vocabulary: CharVocabulary, text: str) -> Tensor:
    return torch.from_numpy(vocabulary.encode(text).astype("int64"))


def _texts(vocabulary: CharVocabulary, ids: Tensor) -> list[str]:
    return [vocabulary.decode(row.numpy().astype("uint16")) for row in ids]
