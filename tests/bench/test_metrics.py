import pytest

from hotloop.bench.metrics import ALIASES, METRICS, metric
from hotloop.core.errors import UsageError


def test_each_figure_is_found_by_its_name_and_its_aliases():
    assert all(metric(name).name == name for name in METRICS)
    assert all(metric(alias).name == name for alias, name in ALIASES.items())


def test_another_word_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean tokens_per_s"):
        metric("token_per_s")


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("tokens_per_s", 51_700, "51.7k"),
        ("vram", 23 * 2**30, "23 GiB"),
        ("gpu_util", 0.612, "61.2%"),
        ("temperature_c", 71.0, "71 C"),
        ("epoch_s", 185, "3:05"),
    ],
)
def test_values_are_shown_with_their_unit(name, value, shown):
    assert METRICS[name].shown(value) == shown
