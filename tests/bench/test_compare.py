import copy
import json

import pytest

from hotloop.bench.compare import compare_files, ratios, unlike
from hotloop.core.errors import ConfigError, DataError


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
