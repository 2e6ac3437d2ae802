"""The entry of char-lm."""

from hotloop.config.derive_plan import auto_layer
from hotloop.recipes.building.entry import Recipe
from hotloop.recipes.char_lm.config import (
    attention_of,
    idle_char_lm,
    one_set,
    resolve_char_lm,
    set_labels,
)

__all__ = ["RECIPE"]

RECIPE = Recipe(
    name="char-lm",
    resolve=resolve_char_lm,
    idle=idle_char_lm,
    attends=attention_of,
    auto=auto_layer,
    series=set_labels,
    member=one_set,
    data="characters",
    package=str(__package__),
    ladder="ladder:LADDER",
    sample="sampling:sample",
)
