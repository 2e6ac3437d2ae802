import io

import pytest
from rich.console import Console
from tests.monitor.conftest import HARDWARE, Nvml, made, session, steps  # noqa: F401 - a fixture

from hotloop.cli.terminal.monitor_screen import line, screen, summary
from hotloop.monitor.assess import assess
from hotloop.monitor.run import RunReader
from hotloop.monitor.sample import ReadingSampler
from hotloop.monitor.series import SampleHistory


def look(sampler):
    history = SampleHistory()
    for _ in range(2):
        history.add(sampler.take())
    sample = history.samples[-1]
    found = assess(history.stats(), history, run=sample.run, machine=HARDWARE, gpus={0: 24 << 30})
    return sample, history, found


def drawn(sampler, *, width, height=50):
    sample, _, found = look(sampler)
    out = Console(file=io.StringIO(), width=width, height=height, force_terminal=True,
                  no_color=True, highlight=False)  # fmt: skip
    out.print(screen(sample, sampler, found, out, title="run demo"))
    return out.file.getvalue()


@pytest.fixture
def sampler(made):  # noqa: F811
    nvml = Nvml(pids=[(1, 1 << 30)], CurrentClocksEventReasons=0x4)
    path = made("demo", [session(), *steps(1, 40, data=0.04)])
    return ReadingSampler(run=RunReader(path), nvml=nvml)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_all_of_it_stands_within_every_width(sampler, width):
    said = drawn(sampler, width=width)
    lines = [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in said.splitlines()]
    assert all(len(line.rstrip()) <= width for line in lines)
    words = " ".join(" ".join(lines).split())
    for word in ("evaluating", "step 40 of 100", "97 %", "300 W of 350 W (86%)", "70 °C",
                 "sw_power_cap", "5 GiB", "of 24 GiB", "busiest"):  # fmt: skip
        assert word in words


def test_a_low_terminal_keeps_what_matters_most(sampler):
    said = drawn(sampler, width=40, height=12)
    assert len(said.splitlines()) <= 12
    assert "evaluating" in said
    assert "why idle" in said


def test_a_missing_gpu_is_unknown_with_its_reason():
    said = drawn(ReadingSampler(nvml=None), width=80)
    assert "unknown: nvidia-ml-py is not installed" in " ".join(said.split())
    assert "0 %" not in said.split("cpu")[0]


def test_one_reading_that_is_missing_is_unknown(made):  # noqa: F811
    said = drawn(ReadingSampler(nvml=Nvml(gone={"PowerUsage", "PcieThroughput"})), width=200)
    assert "power unknown of 350 W" in said
    assert "sent unknown" in said


def test_whose_speed_it_is_stands_beside_it(made, sampler):  # noqa: F811
    path = made("ranks", [session(), *steps(1, 40)], ranks={"world": 2})
    shared = ReadingSampler(run=RunReader(path), nvml=None)
    assert "10k tokens/s (rank 0 of 2)" in " ".join(drawn(shared, width=200).split())
    assert "10k tokens/s (rank 0 of 2)" in line(look(shared)[0], shared)
    assert "(rank 0" not in line(look(sampler)[0], sampler)


def test_a_plain_line_has_no_control_characters(sampler):
    sample, _, _ = look(sampler)
    said = line(sample, sampler)
    assert said.isprintable()
    assert "evaluating step 40 of 100" in said
    assert "GPU 0 97 % 300 W 70 °C 5 GiB" in said


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_summary_has_mean_extremes_and_percentile_at_every_width(sampler, width):
    _, history, found = look(sampler)
    out = Console(file=io.StringIO(), width=width, highlight=False)
    summary(history.stats(), found, out, ended="Ctrl-C", unknown={"disk": "there is none"})
    said = out.file.getvalue()
    assert all(len(line) <= width for line in said.splitlines())
    words = " ".join(said.split())
    for word in ("ended: Ctrl-C", "p95", "gpu0 power", "300 W", "disk is unknown: there is none"):
        assert word in words
