"""The entry of pair-classifier."""

from hotloop.recipes.building.entry import Recipe
from hotloop.recipes.pair_classifier.config import (
    fold_names,
    idle_pair_classifier,
    one_fold,
    resolve_pair_classifier,
)
from hotloop.recipes.pair_classifier.presets import auto_pair_classifier

__all__ = ["RECIPE"]

RECIPE = Recipe(
    name="pair-classifier",
    resolve=resolve_pair_classifier,
    idle=idle_pair_classifier,
    auto=auto_pair_classifier,
    freezes=lambda config: config.adapter.method != "none",
    series=fold_names,
    member=one_fold,
    data="labels",
    package=str(__package__),
    ladder="ladder:LADDER",
    predicts="labels of texts or pairs of texts",
    predict="predictions:predict",
)
