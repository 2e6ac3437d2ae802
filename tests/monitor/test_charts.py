from tests.monitor.conftest import seen

from hotloop.monitor.charts import plots


def test_only_what_was_read_is_drawn():
    history = seen({"cpu_percent": 10.0}, {"cpu_percent": 20.0, "gpu0_power_w": 90.0})
    made = {plot.id: plot for plot in plots(history.samples, [0])}
    assert set(made) == {"cpu", "gpu0-power"}
    assert made["cpu"].lines == {"all cores": [(1.0, 10.0), (2.0, 20.0)]}
    assert made["gpu0-power"].lines == {"power": [(2.0, 90.0)]}
    assert made["cpu"].top == 100


def test_bytes_are_drawn_in_larger_units():
    history = seen({"ram_used_bytes": float(3 << 30), "disk_read_bytes_per_s": float(1 << 20)})
    made = {plot.id: plot for plot in plots(history.samples, [])}
    assert (made["ram"].unit, made["ram"].lines["host"]) == ("GiB", [(1.0, 3.0)])
    assert (made["disk"].unit, made["disk"].lines["read"]) == ("MiB/s", [(1.0, 1.0)])


def test_nothing_seen_is_nothing_drawn():
    assert plots([], [0]) == []
