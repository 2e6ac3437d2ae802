"""hotloop sample: text from a trained character model, one sample after the other on stdout."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run"]


def run(args: Sequence[str]) -> int:
    """Run the verb."""
    parser = argparse.ArgumentParser(prog="hotloop sample", description=__doc__)
    add = parser.add_argument
    add("run", type=Path, metavar="RUN_DIR")
    add("--prompt", help="what the text begins with (default: a new line, not printed)")
    add("--samples", type=int, default=1, help="how many (default 1)")
    add("--length", type=int, default=500, help="characters after the prompt (default 500)")
    add("--temperature", type=float, default=0.8, help="0 takes the likeliest (default 0.8)")
    add("--seed", type=int, default=1337)
    add("--checkpoint", default="best", help="best (default), last or a step")
    options = parser.parse_args(args)
    if options.prompt == "":
        raise UsageError("--prompt must hold at least one character")
    if options.samples < 1 or options.length < 1 or not 0 <= options.temperature < math.inf:
        raise UsageError("--samples and --length must be 1 or more, --temperature 0 or more")

    import torch

    from hotloop.library import load_run
    from hotloop.models.sampling import sample

    trained = load_run(options.run)
    for bad in trained.broken():
        text = f"{bad.path.name} is broken ({'; '.join(bad.broken or ())}); an older one is used"
        print(f"hotloop: {text}", file=sys.stderr)
    vocabulary, prompt = trained.vocabulary(), options.prompt or "\n"
    unseen = sorted({c for c in prompt if c not in vocabulary.characters})
    if unseen:
        print(f"hotloop: not in the vocabulary, read as <unk>: {unseen}", file=sys.stderr)
    ids = sample(
        trained.model(options.checkpoint),
        torch.from_numpy(vocabulary.encode(prompt).astype("int64")),
        samples=options.samples,
        length=options.length,
        temperature=options.temperature,
        seed=options.seed,
    )
    texts = (vocabulary.decode(row.numpy().astype("uint16")) for row in ids)
    print("\n---\n".join((options.prompt or "") + text for text in texts))
    return 0
