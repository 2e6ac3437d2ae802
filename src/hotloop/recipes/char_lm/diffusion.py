"""The diffusion objective of char-lm: learn to denoise whole windows, not the next character."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from hotloop.data.sampling.diffusion_noise import Noise, Noised
from hotloop.models.sedd import ScoreEntropy, Sedd

if TYPE_CHECKING:
    from hotloop.data.sampling.context_windows import Windows
    from hotloop.recipes.char_lm.config import CharLmConfig
    from hotloop.session.job import Job

__all__ = ["build_sedd", "noise_of", "to_denoise"]


def noise_of(config: CharLmConfig, vocabulary: int) -> Noise:
    """Return the noise of a configuration for `vocabulary` characters."""
    return Noise(vocabulary=vocabulary, **asdict(config.diffusion))


def build_sedd(config: CharLmConfig, vocabulary: int) -> Sedd:
    """Return a new denoising model for `vocabulary` characters."""
    transition = config.diffusion.transition
    return Sedd(transition=transition, vocabulary=vocabulary, **config.model.sizes)


def to_denoise(
    job: Job, config: CharLmConfig, vocabulary: int, *, train: Windows, valid: Windows
) -> Job:
    """Return a copy of a char-lm job that denoises the same windows."""
    noise = noise_of(config, vocabulary)
    return replace(
        job,
        model=lambda: build_sedd(config, vocabulary),
        guesses=None,
        loss=ScoreEntropy(transition=noise.transition, ends=noise.ends()),
        train=Noised(train, noise=noise, seed=config.seed),
        valid=Noised(valid, noise=noise, seed=config.seed),
        facts={
            **job.facts,
            "objective": f"denoise whole windows by score entropy (SEDD): {noise}",
            "loss": (
                "an upper bound on -log p, estimated at random noise levels, the same ones in "
                f"every validation; {noise.ends():.2g} of it is for noise outside that range"
            ),
        },
    )
