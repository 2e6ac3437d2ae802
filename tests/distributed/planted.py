"""hotloop whose rank 1 fails in the forward pass of its eighth micro batch."""

import os
import sys

from hotloop.cli.main import main
from hotloop.recipes.char_lm import recipe

HONEST = recipe.next_token_loss
passes = []


def failing(model, tensors):
    passes.append(model.training)
    if os.environ["RANK"] == "1" and sum(passes) == 8:
        raise RuntimeError("planted")
    return HONEST(model, tensors)


if __name__ == "__main__":
    recipe.next_token_loss = failing
    sys.exit(main(sys.argv[1:]))
