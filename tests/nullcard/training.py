"""Trains recipes on null cards, in children of one process that has torch already."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.nullcard.golden import TRAIN
from tests.nullcard.programs import run
from tests.nullcard.recipes import Recipe, write_files
from tests.preloaded import Preloaded

from hotloop.nullcard.build import build

__all__ = ["trainer"]

MODELS = ("transformers.models.bert.modeling_bert", "transformers.models.qwen3.modeling_qwen3")


@contextmanager
def trainer(interpreter: str) -> Iterator[Callable[[Recipe, str], dict[str, Any]]]:
    """Yield a function that trains a recipe on a card, once, and returns what `steps.train` does.

    It has the key "torch" besides, the minor version.
    """
    made: dict[tuple[str, str], dict[str, Any]] = {}
    env = {**os.environ, "LD_PRELOAD": str(build())}
    with (
        tempfile.TemporaryDirectory() as place,
        Preloaded(*MODELS, python=interpreter, env=env) as process,
    ):
        folder = Path(place)
        write_files(folder)

        def train(recipe: Recipe, card: str) -> dict[str, Any]:
            if (recipe.name, card) not in made:
                out = folder / f"run-{len(made)}"
                words = [*recipe.words(folder), "--out", str(out), "--quiet"]
                facts = run(card, TRAIN.format(words=words), process=process).facts
                made[recipe.name, card] = dict(facts)
            return made[recipe.name, card]

        yield train
