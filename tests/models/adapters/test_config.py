"""What adapters can be is checked where it is said."""

import math

import pytest

from hotloop.core.errors import ConfigError
from hotloop.models.adapters.config import AdapterConfig, matches


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"kind": "dorra"}, "did you mean dora"),
        ({"rank": 0}, "1 or more, not 0"),
        ({"alpha": 0}, "above 0"),
        ({"alpha": math.nan}, "above 0"),
        ({"alpha": math.inf}, "finite"),
        ({"dropout": 1.0}, "below 1"),
        ({"dropout": -0.1}, "at least 0"),
        ({"targets": ()}, "no targets"),
        ({"targets": "(q_proj"}, "no regular expression"),
    ],
)
def test_what_cannot_be_is_refused(values, says):
    with pytest.raises(ConfigError, match=says):
        AdapterConfig(**values)


def test_the_scale_is_alpha_over_the_rank_or_over_its_root():
    assert AdapterConfig(rank=16, alpha=32).scaling == 2.0
    assert AdapterConfig(rank=16, alpha=32, rslora=True).scaling == 8.0


def test_names_match_by_whole_parts():
    assert matches("model.layers.0.q_proj", "q_proj")
    assert matches("q_proj", "q_proj")
    assert matches("a.mlp.down", "mlp.down")
    assert not matches("model.layers.0.bq_proj", "q_proj")
    assert not matches("q_proj.0", "q_proj")
