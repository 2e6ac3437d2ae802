import json
from dataclasses import replace

import pytest
from tests.monitor.conftest import Nvml
from tests.monitor.test_record import taken

from hotloop.cli.main import main
from hotloop.core.errors import DataError, UsageError
from hotloop.monitor.compare import compare_records, read_record
from hotloop.monitor.record import save
from hotloop.monitor.requirements import judged, parse_requirements
from hotloop.monitor.sample import ReadingSampler
from hotloop.monitor.series import SeriesStats


def stats(mean, high=None):
    return SeriesStats(mean=mean, low=0.0, high=mean if high is None else high, p95=mean, n=9)


def record(path, *, nvml=None, power=300.0, samples=20):
    value = taken(ReadingSampler(nvml=nvml))
    rows = [{"at_s": n, "gpu0_power_w": power + n % 4} for n in range(samples)]
    for row in rows:
        row["gpu0_held_by"] = [
            {"pid": 7, "name": "game", "memory_bytes": 1 << 30, "watched": False},
            {"pid": 8, "name": "train", "memory_bytes": 1 << 30, "watched": True},
        ]
    save(path, {**value, "samples": rows})
    return read_record(path)


def test_a_reading_is_apart_where_the_middle_halves_do_not_overlap(tmp_path):
    first = record(tmp_path / "a.json", nvml=Nvml())
    changes = {
        power: {
            change.name: change
            for change in compare_records(
                first, record(tmp_path / "b.json", nvml=Nvml(), power=power)
            ).changes
        }["gpu0_power_w"].is_apart
        for power in (300.0, 301.0, 320.0)
    }
    assert changes == {300.0: False, 301.0: False, 320.0: True}
    few = record(tmp_path / "c.json", nvml=Nvml(), samples=3)
    assert all(change.is_apart is None for change in compare_records(first, few).changes)


def test_unlike_hardware_and_other_programs_are_said(tmp_path):
    first = record(tmp_path / "a.json", nvml=Nvml())
    other = replace(
        first,
        gpus=[{"name": "another GPU"}],
        host={**first.host, "cores": 1},
    )
    notes = compare_records(first, other).notes
    assert notes[0].startswith("other GPUs: before ")
    assert notes[0].endswith("; after another GPU")
    assert any(note.startswith("another machine: cores ") for note in notes)
    assert "other programs on the GPU before: game (7)" in notes
    assert not any("train" in note for note in notes)


def test_a_reading_of_one_record_alone_is_named(tmp_path):
    first = record(tmp_path / "a.json", nvml=Nvml())
    second = record(tmp_path / "b.json", nvml=None)
    assert compare_records(first, second).only["gpu0_power_w"] == str(tmp_path / "a.json")


@pytest.mark.parametrize(
    "damage",
    [
        {"gpu0_power_w": None},
        {"gpu0_power_w": "abc"},
        {"gpu0_held_by": ["x"]},
        {"gpu0_held_by": None},
        {"gpu0_slowed_by": 5},
    ],
)
def test_a_damaged_sample_is_a_data_error(tmp_path, damage):
    path = tmp_path / "x.json"
    record(path)
    value = json.loads(path.read_text())
    value["samples"][3] |= damage
    path.write_text(json.dumps(value))
    with pytest.raises(DataError, match="the record is damaged"):
        read_record(path)


@pytest.mark.parametrize("text", ["{}", '{"kind": "monitor", "schema": 1, "summary": 3}', "["])
def test_what_is_no_record_is_a_data_error(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"x\.json"):
        read_record(path)


@pytest.mark.parametrize(
    ("text", "readings", "outcome"),
    [
        ("gpu_util>=60%", {"gpu0_utilisation_percent": stats(60)}, "met"),
        ("gpu_util>=60%", {"gpu0_utilisation_percent": stats(59)}, "MISSED"),
        ("temperature_c<=85", {"gpu0_temperature_c": stats(70, high=86)}, "MISSED"),
        ("temperature_c<=85", {f"gpu{n}_temperature_c": stats(70 + 10 * n) for n in (0, 1)}, "met"),
        ("temperature_c<=85", {f"gpu{n}_temperature_c": stats(76 + 10 * n) for n in (0, 1)},
         "MISSED"),
        ("gpu1_power_w>=9", {"gpu0_power_w": stats(10), "gpu1_power_w": stats(8)}, "MISSED"),
        ("ram_used_bytes<=2GiB", {"ram_used_bytes": stats(3 << 30)}, "MISSED"),
        ("gpu_util>=60%", {"cpu_percent": stats(99)}, "UNKNOWN"),
    ],
)  # fmt: skip
def test_a_requirement_is_judged_by_the_mean_or_the_highest(text, readings, outcome):
    (verdict,) = judged(parse_requirements(text), readings)
    assert (verdict.requirement, verdict.outcome) == (text, outcome)
    assert verdict.why


def test_a_unit_is_that_of_the_reading():
    with pytest.raises(UsageError, match="cpu_percent is not counted in MHz"):
        parse_requirements("cpu_percent>=0MHz")


@pytest.mark.parametrize("text", ["", "gpu_util", "gpu_util>60", "gpu_util>=", "a>=1x"])
def test_other_conditions_are_refused(text):
    with pytest.raises(UsageError, match="gpu_util>=60% temperature_c<=85"):
        parse_requirements(text)


def test_the_command_prints_and_writes_the_comparison(tmp_path, capsys):
    for name in ("a", "b"):
        record(tmp_path / f"{name}.json", nvml=Nvml(), power=300.0 if name == "a" else 330.0)
    argv = ["monitor", "compare", *(str(tmp_path / f"{name}.json") for name in ("a", "b"))]
    out = tmp_path / "c.json"
    assert main([*argv, "--require", "power_w>=299", "--json", str(out)]) == 0
    told = capsys.readouterr().out
    assert f"before: {tmp_path / 'a.json'}, this machine, 2 s" in told.replace("\n", "")
    assert "gpu0 power" in told
    assert "apart" in told
    assert "met      power_w>=299: gpu0 power: mean 300 W" in told
    assert json.loads(out.read_text())["requirements"][0]["outcome"] == "met"
    assert main([*argv, "--require", "power_w>=400"]) == 1
    assert main(argv[:3]) == 2


def test_watching_ends_with_one_where_a_condition_is_missed(capsys):
    argv = ["monitor", "--duration", "0.3", "--interval", "0.1", "-q"]
    assert main([*argv, "--require", "cpu_percent<=100"]) == 0
    assert main([*argv, "--require", "no_such_reading>=1"]) == 1
    assert "UNKNOWN" in capsys.readouterr().out
