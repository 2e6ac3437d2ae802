"""Writes data/speech_commands: 35 words x 40 one-second wav files of tones, and cache/ of MFCCs."""

import hashlib
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np

WORDS = (
    "yes no up down left five six seven eight nine bed bird cat dog four tree backward forward "
    "happy house sheila stop off go zero wow one follow learn visual right on marvin two three"
)


def tones(rng: np.random.Generator, word: int) -> bytes:
    """Return a second at 16 kHz: three gliding tones of the word, a speaker's pitch, noise."""
    time, own = np.arange(16000) / 16000, np.random.default_rng(word)
    sound = rng.normal(0, 0.02, 16000)
    pitch, start = rng.uniform(0.85, 1.2), rng.uniform(0.1, 0.35)
    for part in range(3):
        low, high = own.uniform(150, 2500, 2) * pitch
        at = np.clip((time - start - part * 0.15) / 0.25, 0, 1)
        loud = np.sin(np.pi * at) * own.uniform(0.1, 0.3)
        sound += loud * np.sin(6.2832 * np.cumsum(low + (high - low) * at) / 16000)
    return (np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes()


if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), np.random.default_rng(0)
    for number, word in enumerate(WORDS.split()):
        folder = checkout / "data" / "speech_commands" / word
        folder.mkdir(parents=True, exist_ok=True)
        for take in range(40):
            speaker = hashlib.md5(f"{number} {take}".encode()).hexdigest()[:8]
            with wave.open(str(folder / f"{speaker}_nohash_0.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(16000)
                file.writeframes(tones(rng, number))
    command = [sys.executable, "train.py", "--cache", "speech_commands"]
    subprocess.run(command, cwd=checkout, check=True, stdout=subprocess.DEVNULL)
