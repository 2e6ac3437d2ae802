import pytest
from tests.monitor.conftest import seen

from hotloop.monitor.sample import MachineSample
from hotloop.monitor.series import MOST, SampleHistory, headline, name_of, shown


def test_mean_extremes_and_percentile_are_of_the_samples_that_know_it():
    history = seen(*({"a_w": float(n)} for n in range(1, 101)), {})
    found = history.stats()["a_w"]
    assert (found.mean, found.low, found.high, found.p95, found.n) == (50.5, 1, 100, 95, 100)


def test_one_sample_is_its_own_percentile():
    assert seen({"a_w": 3.0}).stats()["a_w"].p95 == 3.0


def test_a_long_time_stays_small_and_its_extremes_stay_true():
    history = SampleHistory()
    count = 2 * MOST + 3
    for n in range(count):
        history.add(MachineSample(at=float(n), values={"a_w": float(n == 7)}))
    found = history.stats()["a_w"]
    assert (found.n, found.high) == (count, 1.0)
    assert found.mean == pytest.approx(1 / count)
    assert len(history.samples) < 2 * MOST
    gaps = {b.at - a.at for a, b in zip(history.samples, history.samples[1:], strict=False)}
    assert gaps == {2.0}, "every second one is left, evenly"


def test_reasons_are_counted_by_gpu():
    history = seen({}, {}, slowed={1: ("sw_power_cap",)})
    assert history.slowed == {(1, "sw_power_cap"): 2}


@pytest.mark.parametrize(
    ("name", "value", "word", "said"),
    [
        ("gpu0_utilisation_percent", 97.2, "gpu0 utilisation", "97 %"),
        ("gpu0_power_w", 301.0, "gpu0 power", "301 W"),
        ("gpu0_temperature_c", 71.0, "gpu0 temperature", "71 °C"),
        ("ram_used_bytes", 3 << 30, "ram used", "3 GiB"),
        ("disk_read_bytes_per_s", 2048.0, "disk read", "2 KiB/s"),
        ("run_tokens_per_s", 51_700.0, "run tokens", "51.7k/s"),
        ("process_cpu_cores", 1.5, "process cpu", "1.50 cores"),
        ("run_step", 12.0, "run step", "12"),
    ],
)
def test_names_and_values_are_read_with_their_unit(name, value, word, said):
    assert (name_of(name), shown(name, value)) == (word, said)


def test_single_cores_and_what_never_changes_are_no_headline():
    assert headline("cpu_busiest_core_percent")
    assert not headline("cpu_core3_percent")
    assert not headline("gpu0_power_limit_w")
