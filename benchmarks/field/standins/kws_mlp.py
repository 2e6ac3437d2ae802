"""Writes files/dataset with made one-second 16 kHz wav files in the folders of Speech Commands
v0.02. A word is a chain of syllables (voiced tones with two formants, by class) at a random
place in the second over faint noise; one clip in ten is shorter than a second, as in the real
set.
"""

from __future__ import annotations

import sys
import wave
from pathlib import Path

import numpy as np

RATE, CLIPS = 16000, 32
WORDS = ["stop", "left", "right", "forward", "backward"]


def clip(rng: np.random.Generator, word: int) -> np.ndarray:
    """One spoken word, made."""
    length = RATE if rng.random() > 0.1 else int(rng.uniform(0.6, 0.99) * RATE)
    sound = rng.normal(0, 0.004, length)
    t = np.arange(int(rng.uniform(0.35, 0.55) * RATE)) / RATE
    pitch = rng.uniform(90, 240)
    voice = sum(np.sin(2 * np.pi * pitch * k * t) / k for k in range(1, 8))
    for formant in (300 + 120 * word, 1200 + 350 * word):
        voice = voice + np.sin(2 * np.pi * formant * t * (1 + 0.1 * t))
    voice *= np.hanning(t.size) * (1 + np.sin(2 * np.pi * (2 + word) * t)) * rng.uniform(0.03, 0.12)
    start = rng.integers(0, length - t.size + 1)
    sound[start : start + t.size] += voice
    return (np.clip(sound, -1, 1) * 32767).astype("<i2")


def main(checkout: Path) -> None:
    """Write CLIPS files for each word that the script uses."""
    rng = np.random.default_rng(5)
    for word, name in enumerate(WORDS):
        folder = checkout / "files/dataset" / name
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(CLIPS):
            path = folder / f"{rng.integers(16**8):08x}_nohash_{number % 4}.wav"
            with wave.open(str(path), "wb") as file:
                file.setparams((1, 2, RATE, 0, "NONE", ""))
                file.writeframes(clip(rng, word).tobytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
