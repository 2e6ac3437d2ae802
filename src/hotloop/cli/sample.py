"""hotloop sample: text from a trained language model, one sample after the other on stdout."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.arguments.recipe import CHECKPOINT, say_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

__all__ = ["run"]

PATIENCE, EVERY = 1.0, 0.1  # seconds before the first progress line, and between two
WIPE = "\r\x1b[2K"  # clears the line


def run(args: Sequence[str]) -> int:
    """Run the verb."""
    parser = argparse.ArgumentParser(prog="hotloop sample", description=__doc__)
    add = parser.add_argument
    add("run", type=Path, metavar="RUN_DIR")
    add("--prompt", help="what the text begins with, or what is to be answered")
    add("--suffix", help="what it ends with (diffusion)")
    add("--samples", type=int, default=1, help="how many (default 1)")
    add(
        "--length",
        type=int,
        help="at most: characters (default 500), or tokens of an answer (256)",
    )
    add("--steps", type=int, help="denoising steps (diffusion; default 128)")
    add(
        "--temperature",
        type=float,
        help="0 takes the likeliest (next-char default: 0.8)",
    )
    add("--seed", type=int, default=1337)
    add("--checkpoint", help=CHECKPOINT)
    options = parser.parse_args(args)

    from hotloop.api import load_run

    trained = load_run(options.run)
    say_checkpoint(trained, options.checkpoint)
    characters = set((options.prompt or "") + (options.suffix or ""))
    if trained.has_characters and (
        unseen := sorted(characters - {*trained.vocabulary().characters})
    ):
        print(f"hotloop: not in the vocabulary, read as <unk>: {unseen}", file=sys.stderr)
    texts = trained.sample(
        prompt=options.prompt,
        suffix=options.suffix,
        samples=options.samples,
        length=options.length,
        steps=options.steps,
        temperature=options.temperature,
        seed=options.seed,
        which=options.checkpoint,
        progress=_progress(sys.stderr),
    )
    print("\n---\n".join(texts))
    return 0


def _progress(
    screen: TextIO, clock: Callable[[], float] = time.monotonic
) -> Callable[[int, int], None] | None:
    """Return the callback that redraws a progress line, or None if `screen` is not a terminal."""
    if not screen.isatty():
        return None
    due, drawn = clock() + PATIENCE, False

    def notify(done: int, whole: int) -> None:
        nonlocal due, drawn
        if done == whole:
            screen.write(WIPE * drawn)
        elif (now := clock()) >= due:
            due, drawn = now + EVERY, True
            screen.write(f"{WIPE}sampling {done}/{whole}")
        screen.flush()

    return notify
