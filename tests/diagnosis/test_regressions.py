"""Runs of one script against each other, as their findings.json holds them."""

import copy
import json
import random

import pytest

from hotloop.core.errors import DataError, UsageError
from hotloop.core.fail_on import parse_conditions
from hotloop.diagnosis.baseline import read_baseline
from hotloop.diagnosis.changed_figures import FIGURES
from hotloop.diagnosis.recorded_run import recorded
from hotloop.diagnosis.regressions import compare_runs

ALL = "step_time>+10% samples_per_s<-10% start>+50% peak_memory>+20% new-findings>=warn"


def findings(rule: str, severity: str = "warn", **more) -> dict:
    return {"rule": rule, "claim": f"{rule} costs", "severity": severity, "because": [], **more}


def raw(seconds: float = 0.01, *, seed: int = 1, found=(), **run) -> dict:
    draw, n = random.Random(seed), 200
    facts = {
        "script": "train.py",
        "arguments": ["--lr", "1"],
        "hardware": {
            "schema": 1,
            "device": "cpu",
            "name": "a CPU",
            "count": 1,
            "memory_bytes": None,
            "host_memory_bytes": None,
            "cores": 2.0,
            "capability": None,
            "smem_bytes": None,
            "cpu_features": [],
            "versions": {"torch": "2.13", "hotloop": "0.1"},
            "measured": {},
        },
        "threads": 1,
        "machine_cores": 2,
        "own_cores": 1.0,
        "other_cores": 0.0,
        "reference": {"products": 0.001},
        "steps": [*range(2, 2 + n)],
        "samples": 32.0,
        "start": 2.0,
        "peak_bytes": 4e8,
        "waits": 0.0,
        "counted_steps": n,
    }
    readings = [seconds * (1 + draw.uniform(-0.02, 0.02)) for _ in range(n)]
    return {
        "schema": 1,
        "step_time": {"unit": "s", "readings": readings, "source": "measured"},
        "findings": list(found),
        "run": {**facts, **run},
    }


def compared(before: dict, now: dict, text: str = ALL):
    a, b = (recorded(each, name=name) for each, name in ((before, "base.json"), (now, "this run")))
    result = compare_runs([a], b, parse_conditions(text, FIGURES))
    return result, {one.condition.split(">")[0].split("<")[0]: one for one in result.conditions}


def verdicts(result) -> dict:
    return {figure.name: figure.verdict for figure in result.figures}


def with_version(name: str, version: str) -> dict:
    other = raw(seed=2)
    other["run"] = copy.deepcopy(other["run"])
    other["run"]["hardware"]["versions"][name] = version
    return other


def test_a_slower_step_regresses_and_an_equal_one_does_not():
    result, by_name = compared(raw(), raw(0.015, seed=2))
    assert verdicts(result)["step_time"] == verdicts(result)["samples_per_s"] == "SLOWER"
    assert by_name["step_time"].outcome == by_name["samples_per_s"].outcome == "REGRESSED"
    assert "15 ms, 9.98 ms before: +50% (" in by_name["step_time"].why
    assert "3.21k before: -33% (" in by_name["samples_per_s"].why
    result, by_name = compared(raw(), raw(seed=2), ALL.replace("10%", "30%"))
    assert verdicts(result)["step_time"] == "UNKNOWN"  # equal runs may differ by more than 3 %
    assert by_name["step_time"].outcome == by_name["samples_per_s"].outcome == "held"


def test_twice_the_samples_in_twice_the_time_is_no_slower_rate():
    result, by_name = compared(raw(), raw(0.02, seed=2, samples=64.0))
    assert by_name["step_time"].outcome == "REGRESSED"
    assert by_name["samples_per_s"].outcome == "UNKNOWN"
    assert next(f for f in result.figures if f.name == "samples_per_s").change.ratio < 1.02


def test_what_noise_does_not_settle_is_unknown_with_a_remedy():
    _, by_name = compared(raw(), raw(0.0112, seed=2))
    assert by_name["step_time"].outcome == "UNKNOWN"
    assert by_name["step_time"].why.startswith("cannot be told: 11.2 ms, 9.98 ms before: +12% (")
    assert "give several runs as baselines: --baseline A.json" in by_name["step_time"].why


@pytest.mark.parametrize("side", ["before", "now"])
def test_another_load_gives_no_verdict(side):
    loaded = {"other_cores": 1.5}
    before = raw(0.015 if side == "before" else 0.01, **(loaded if side == "before" else {}))
    now = raw(0.015 if side == "now" else 0.01, seed=2, **(loaded if side == "now" else {}))
    result, by_name = compared(before, now)
    assert verdicts(result)["step_time"] == "UNKNOWN"
    assert by_name["step_time"].outcome == "UNKNOWN"
    name = "base.json" if side == "before" else "this run"
    assert f"other processes kept 1.5 cores busy during {name}" in by_name["step_time"].why


def test_a_machine_that_became_slower_gives_no_verdict():
    _, by_name = compared(raw(), raw(0.014, seed=2, reference={"products": 0.0014}))
    assert by_name["step_time"].outcome == "UNKNOWN"
    assert "another speed" in by_name["step_time"].why


def test_steps_that_vary_ask_for_a_longer_run():
    noisy = raw(0.012, seed=2)
    noisy["step_time"]["readings"] = [0.003 * (1 + n // 20) for n in range(200)]
    _, by_name = compared(raw(), noisy)
    assert "run longer: --time" in by_name["step_time"].why


@pytest.mark.parametrize(
    ("now", "what", "spoiled"),
    [
        (
            raw(0.02, arguments=["--lr", "2"]),
            "script arguments: --lr 1 in base.json, --lr 2 now",
            1,
        ),
        (raw(0.02, script="other.py"), "script: train.py in base.json, other.py now", 1),
        (raw(0.02, threads=2), "threads: 1 in base.json, 2 now", 0),
        (with_version("torch", "2.14"), "torch: 2.13 in base.json, 2.14 now", 1),
    ],
)
def test_what_is_unlike_is_named_with_what_still_holds(now, what, spoiled):
    now["findings"] = [findings("D1 slow_read")]
    result, by_name = compared(raw(), now)
    (difference,) = result.differences
    assert difference.said.startswith(what)
    assert "findings can" in difference.said
    assert verdicts(result)["step_time"] == verdicts(result)["start"] == "UNKNOWN"
    assert by_name["step_time"].outcome == "UNKNOWN"
    assert f"the runs differ in {difference.what}" in by_name["step_time"].why
    memory = next(figure for figure in result.figures if figure.name == "peak_memory")
    assert (memory.change.ratio is None) == bool(spoiled)
    assert by_name["new-findings"].outcome == "REGRESSED"


def test_another_version_of_hotloop_spoils_new_findings_alone():
    now = with_version("hotloop", "0.2")
    now["findings"] = [findings("D1 slow_read")]
    result, by_name = compared(raw(), now)
    assert by_name["new-findings"].outcome == "UNKNOWN"
    assert "differ in hotloop" in by_name["new-findings"].why
    assert result.figures[0].change.ratio == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize(
    ("before", "now", "outcome", "new"),
    [
        ([], [findings("D1 a")], "REGRESSED", 1),
        ([], [findings("D1 a", "note")], "held", 1),
        ([findings("D1 a")], [findings("D1 a")], "held", 0),
        ([findings("D1 a")], [], "held", 0),
        ([findings("D1 a")], [findings("D1 a"), findings("D1 a")], "REGRESSED", 1),
        ([findings("D1 a", "note")], [findings("D1 a")], "UNKNOWN", 0),
        (
            [findings("S1 b", "note", kind="correctness")],
            [findings("S1 b", "critical", kind="correctness")],
            "REGRESSED",
            0,
        ),
        ([findings("D2 b", because=["D1 a: so"])], [findings("D1 a")], "UNKNOWN", 0),
    ],
)
def test_new_findings_are_those_of_which_no_baseline_knew(before, now, outcome, new):
    result, by_name = compared(raw(found=before), raw(seed=2, found=now))
    assert by_name["new-findings"].outcome == outcome
    assert len(result.new) == new


def test_refuted_and_further_lists_count_as_known():
    before = raw()
    before["refuted"] = [findings("D1 a")]
    result, by_name = compared(before, raw(seed=2, found=[findings("D1 a")]))
    assert result.new == ()
    assert by_name["new-findings"].outcome == "UNKNOWN"


def test_a_run_without_steps_says_that_they_are_missing():
    now = raw(steps=[])
    now["step_time"] = None
    _, by_name = compared(raw(), now)
    assert by_name["step_time"].outcome == "UNKNOWN"
    assert "not known of this run" in by_name["step_time"].why


def test_a_wait_in_each_step_is_more_and_holds_on_another_cpu():
    now = raw(seed=2, waits=1.0)
    now["run"]["hardware"] = {**now["run"]["hardware"], "name": "another CPU"}
    result, _ = compared(raw(), now)
    assert verdicts(result)["waits_per_step"] == "MORE"
    assert verdicts(result)["step_time"] == "UNKNOWN"


def test_the_json_has_the_figure_itself_and_survives_json():
    result, _ = compared(raw(), raw(0.015, seed=2))
    written = json.loads(json.dumps(result.to_json()))
    step, samples = written["figures"][:2]
    assert step["ratio"] == pytest.approx(1.5, rel=0.02)
    assert samples["ratio"] == pytest.approx(1 / 1.5, rel=0.02)
    assert samples["interval"][0] < samples["ratio"] < samples["interval"][1]
    assert written["conditions"][0]["outcome"] == "REGRESSED"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x: x.pop("run"), "an older version of hotloop wrote it"),
        (lambda x: x.pop("findings"), "is no findings.json"),
        (lambda x: x.update(schema=9), "is no findings.json"),
        (lambda x: x["run"].update(steps=[1]), "was the file edited?"),
        (lambda x: x["run"].update(threads="two"), "run.threads: expected int"),
        (lambda x: x.update(findings=[{"rule": "D1 a"}]), "expected a finding"),
        (lambda x: x["step_time"].update(readings=["a"]), "step_time.readings"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(change, said, tmp_path):
    broken = raw()
    change(broken)
    (tmp_path / "base.json").write_text(json.dumps(broken))
    with pytest.raises(DataError) as error:
        read_baseline(tmp_path / "base.json")
    assert said in str(error.value)
    assert "base.json" in str(error.value)


def test_a_missing_baseline_says_how_to_write_one(tmp_path):
    with pytest.raises(UsageError, match="write it with: hotloop doctor --json"):
        read_baseline(tmp_path / "base.json")
