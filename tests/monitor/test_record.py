import json
from itertools import pairwise

from tests.monitor.conftest import Nvml, session, steps

from hotloop.monitor.assess import assess
from hotloop.monitor.record import About, document, save
from hotloop.monitor.run import RunReader
from hotloop.monitor.sample import ReadingSampler
from hotloop.monitor.series import SampleHistory

ABOUT = About(
    watched="this machine", began="2026-11-21T13:41:35+00:00", seconds=2.0, interval=1.0,
    ended="Ctrl-C", cpu_percent=0.1,
)  # fmt: skip


def taken(sampler):
    history = SampleHistory()
    for _ in range(3):
        history.add(sampler.take())
    run = history.samples[-1].run
    found = assess(history.stats(), history, run=run, machine=sampler.machine, gpus={})
    return document(ABOUT, history, sampler, found)


def test_every_reading_has_its_figures_and_its_unit():
    value = taken(ReadingSampler(nvml=Nvml()))
    assert value["schema"] == 1
    assert value["summary"]["gpu0_power_w"] == {
        "mean": 300, "min": 300, "max": 300, "p95": 300, "n": 3
    }  # fmt: skip
    units = ("percent", "bytes", "bytes_per_s", "w", "mhz", "c", "cores")
    assert all(name.endswith(units) for name in value["summary"])
    assert "cpu_core0_percent" in value["samples"][0]
    ats = [sample["at_s"] for sample in value["samples"]]
    assert all(a <= b for a, b in pairwise(ats))


def test_what_is_unknown_is_named_with_its_reason_and_never_zero():
    value = taken(ReadingSampler(nvml=Nvml(gone={"PowerUsage"})))
    assert "does not tell" in value["unknown"]["gpu0_power_w"]
    assert "gpu0_power_w" not in value["summary"]
    without = taken(ReadingSampler(nvml=None))
    assert "not installed" in without["unknown"]["gpu"]
    assert "gpu" not in json.dumps(without["summary"])


def test_a_run_is_in_it_with_what_it_did(made):
    value = taken(ReadingSampler(run=RunReader(made(events=[session(), *steps(1, 20)]))))
    assert value["run"]["state"] == "running"
    assert value["run"]["step_share_percent"]["backward"] == 50
    assert value["run_phase_percent"] == {"training": 100}
    assert value["samples"][-1]["run_phase"] == "training"


def test_a_file_is_whole_json_with_a_line_for_each_sample(tmp_path):
    value, path = taken(ReadingSampler()), tmp_path / "F.json"
    save(path, value)
    text = path.read_text()
    assert json.loads(text) == json.loads(json.dumps(value))
    assert sum('"at_s"' in line for line in text.splitlines()) == 3
    assert text.index('"assessment"') < text.index('"samples": [')


def test_a_time_without_samples_is_written_too(tmp_path):
    sampler, history = ReadingSampler(), SampleHistory()
    found = assess({}, history, run=None, machine=sampler.machine, gpus={})
    save(tmp_path / "F.json", document(ABOUT, history, sampler, found))
    assert json.loads((tmp_path / "F.json").read_text())["samples"] == []
