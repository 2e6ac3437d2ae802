import copy
import json

import pytest

from hotloop.bench.compare import FIGURES, compare_files, ratios, unlike
from hotloop.core.errors import ConfigError, DataError
from hotloop.core.fail_on import parse_conditions


@pytest.fixture
def a(result) -> dict:
    return json.loads(json.dumps(result.to_json()))


def changed(raw: dict, *where, to) -> dict:
    other = copy.deepcopy(raw)
    place = other
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = to
    return other


def test_a_result_beside_itself_is_alike(a):
    assert list(unlike(a, a)) == []
    own = next(each for each in ratios(a, a) if each.id == "own")
    assert own.ratio == own.of_factors == 1
    assert own.factor_a == pytest.approx(5)


@pytest.mark.parametrize(
    ("where", "to", "said"),
    [
        (("hardware", "name"), "another CPU", "hardware name"),
        (("hardware", "cores"), 64, "hardware cores"),
        (("hardware", "versions", "torch"), "2.9", "version torch"),
        (("settings", "training.batch_size"), 7, "setting training.batch_size"),
        (("facts", "data"), "other text", "fact data"),
        (("ladder",), "gpt2", "ladder"),
    ],
)
def test_unlike_machines_versions_and_settings_are_refused(a, where, to, said, tmp_path):
    (line,) = unlike(a, changed(a, *where, to=to))
    assert line.startswith(said)
    paths = tmp_path / "a.json", tmp_path / "b.json"
    for path, raw in zip(paths, (a, changed(a, *where, to=to)), strict=True):
        path.write_text(json.dumps(raw))
    with pytest.raises(ConfigError, match=said) as error:
        compare_files(*paths)
    assert error.value.exit_code == 78


def test_what_hotloop_itself_and_its_readings_are_may_differ(a):
    other = changed(a, "hardware", "versions", "hotloop", to="9.9")
    other = changed(other, "hardware", "measured", to={})
    assert list(unlike(a, other)) == []


def test_rungs_that_one_did_not_measure_have_a_reason(a):
    less = {**a, "rows": [row for row in a["rows"] if row["id"] != "own"]}
    found = {each.id: each.why for each in ratios(a, less)}
    assert found["own"] == "not in B"
    assert found["low"] == "blocked in A, blocked in B"
    assert found["sdpa"] is None


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(DataError, match="schema 1"):
        compare_files(tmp_path / "a.json", tmp_path / "a.json")


def slowed(raw: dict, factor: float, **more) -> dict:
    """Return a result whose rung "own" has steps of `factor` times the length."""
    other = {**copy.deepcopy(raw), **more}
    for row in other["rows"]:
        if row["id"] == "own":
            row["step"]["readings"] = [factor * time for time in row["step"]["readings"]]
            row["figures"]["tokens_per_s"] /= factor
    return other


def judged(a: dict, b: dict, tmp_path, text: str):
    paths = tmp_path / "a.json", tmp_path / "b.json"
    for path, raw in zip(paths, (a, b), strict=True):
        path.write_text(json.dumps(raw))
    return compare_files(*paths, parse_conditions(text, FIGURES, findings=False))


def quiet(raw: dict) -> dict:
    return {**raw, "busy_cores": 0.0}


def test_a_slower_rung_has_a_verdict_and_an_equal_one_has_none(a, tmp_path):
    a = quiet(a)
    result = judged(a, slowed(a, 1.5), tmp_path, "tokens_per_s<-10%")
    rungs = {rung.id: rung for rung in result.rungs}
    assert rungs["own"].verdict == "SLOWER"
    assert rungs["own"].change.ratio == pytest.approx(1.5)
    assert rungs["sdpa"].verdict == "UNKNOWN"  # equal runs may differ by more than 3 %
    (condition,) = result.conditions
    assert condition.outcome == "REGRESSED"
    assert "-33% (" in condition.why
    assert "(rung own)" in condition.why
    (condition,) = judged(a, a, tmp_path, "tokens_per_s<-40%").conditions
    assert condition.outcome == "held"


def test_what_noise_or_load_may_explain_is_unknown(a, tmp_path):
    a = quiet(a)
    (noise,) = judged(a, slowed(a, 1.15), tmp_path, "tokens_per_s<-10%").conditions
    assert (noise.outcome, "equal runs may differ" in noise.why) == ("UNKNOWN", True)
    busy = slowed(a, 1.5, busy_cores=float(a["hardware"]["cores"]))
    (load,) = judged(a, busy, tmp_path, "tokens_per_s<-10%").conditions
    assert (load.outcome, "other processes were busy" in load.why) == ("UNKNOWN", True)


def test_a_smaller_batch_in_less_time_is_no_slower_rate(a, tmp_path):
    a = quiet(a)
    b = slowed(a, 0.5)  # a step takes half the time,
    own = next(row for row in b["rows"] if row["id"] == "own")
    own["figures"]["tokens_per_s"] /= 2  # as it has half the tokens
    result = judged(a, b, tmp_path, "tokens_per_s<-40%")
    assert next(rung for rung in result.rungs if rung.id == "own").change.ratio == pytest.approx(1)
    assert result.conditions[0].outcome == "held"


def test_a_figure_or_rung_that_is_missing_is_unknown(a, tmp_path):
    (vram,) = judged(a, a, tmp_path, "vram>+10%").conditions
    assert (vram.outcome, vram.why) == ("UNKNOWN", "cannot be told: vram is not known in A and B")
    without = {**a, "rows": [row for row in a["rows"] if row["id"] != "own"]}
    (rung,) = judged(a, without, tmp_path, "tokens_per_s<-10%").conditions
    assert rung.outcome == "UNKNOWN"
    assert "the rung own was not measured in B" in rung.why
