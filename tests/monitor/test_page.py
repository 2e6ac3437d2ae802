import re

from tests.monitor.conftest import HARDWARE, seen
from tests.report.conftest import EVIL, Sound

from hotloop.monitor.assess import assess
from hotloop.monitor.charts import plots
from hotloop.monitor.page import page
from hotloop.monitor.record import About

ROWS = [{"cpu_percent": 10.0 * n, "gpu0_power_w": 50.0, "gpu0_power_limit_w": 350.0,
         "gpu0_temperature_c": 40.0} for n in range(5)]  # fmt: skip


def made(rows, *, watched="run demo", unknown=None):
    history = seen(*rows)
    stats = history.stats()
    about = About(
        watched=watched, began="2026-11-21T13:41:35+00:00", seconds=5.0, interval=1.0,
        ended="the run is complete", cpu_percent=0.1,
    )  # fmt: skip
    assessment = assess(stats, history, run=None, machine=HARDWARE, gpus={0: None})
    return page(about, stats, plots(history.samples, [0]), assessment, unknown or {})


def test_a_page_holds_figures_curves_and_what_stands_out():
    html = made(ROWS)
    Sound(html)
    assert "GPU 0 is cool and draws little" in html
    assert len(re.findall(r"<figure", html)) == 3, "cores, power, temperature"
    assert "Throughput: unknown" in html
    assert ">50 W<" in html


def test_what_is_unknown_stands_there_with_its_reason():
    html = made([{"cpu_percent": 1.0}], unknown={"gpu": "no library"})
    assert "no library" in html
    assert "no GPU could be read" in html


def test_without_a_sample_the_page_says_so():
    html = made([])
    Sound(html)
    assert "No sample was taken." in html


def test_a_name_cannot_become_markup():
    html = made(ROWS, watched=f"run {EVIL}")
    assert "alert(1)</script>" not in html
