import pytest

from hotloop.bench.ladders import LADDERS, find
from hotloop.core.errors import UsageError
from hotloop.recipes.registry import RECIPES


def test_every_recipe_has_a_ladder():
    assert set(LADDERS) == set(RECIPES)
    assert all(find(name).recipe == name for name in LADDERS)


def test_another_word_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean char-lm"):
        find("char-ml")
