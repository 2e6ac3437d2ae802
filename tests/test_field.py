"""What the doctor said rightly of public scripts, it still says of their recorded observations.

`python -m benchmarks.field WAVE CHECKOUTS --record` keeps them, without the scripts' code.
"""

import json

import pytest
from benchmarks.field.__main__ import HERE, KEPT_CASES, said

from hotloop.core.case.case import Case

# The place that the verdict names, where a reader found it right (docs/field.md); None: silent.
RIGHT = {
    "char_rnn_user": None,
    "lightning_mnist3_user": "src/dm.py:18",
    "steering_user": "train.py:32",
}
RECORDED = sorted(path.stem for path in KEPT_CASES.glob("*.json"))


def test_all_are_recorded():
    assert RIGHT.keys() <= set(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_a_public_script_is_judged_as_before(name):
    case = Case.from_json(json.loads((KEPT_CASES / f"{name}.json").read_text()))
    assert not case.sources, "code of others is not kept"
    verdict = said(case)
    truth = json.loads((HERE / "truth" / f"{name}.json").read_text())
    if truth["cost"] is None and name in RIGHT:
        assert not verdict["loud"]
    if (place := RIGHT.get(name)) is not None:
        assert place in verdict["verdict"]
        file, line = place.split("/")[-1].split(":")
        assert [file, int(line)] in verdict["places"]
