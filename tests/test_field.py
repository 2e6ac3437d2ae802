"""What the doctor said rightly of public scripts, it still says of their recorded observations.

`python -m benchmarks.field WAVE CHECKOUTS --record` keeps them, without the scripts' code.
"""

import json
import re

import pytest
from benchmarks.field.__main__ import KEPT_CASES, said

from hotloop.core.case.case import Case

# The place that the verdict names, where a reader found it right (docs/field.md); None: silent.
RIGHT = {
    "char_rnn_user": None,
    "lightning_mnist3_user": "src/dm.py:18",
    "steering_user": "train.py:32",
}
RECORDED = sorted(path.stem for path in KEPT_CASES.glob("*.json"))


def kept(name: str) -> Case:
    return Case.from_json(json.loads((KEPT_CASES / f"{name}.json").read_text()))


@pytest.mark.parametrize("name", RECORDED)
def test_no_code_and_no_path_of_a_machine_is_kept(name):
    assert not kept(name).sources
    text = (KEPT_CASES / f"{name}.json").read_text()
    assert not re.search(r'"/(?!field/|packages/|python/)[^"]*\.py"', text)


@pytest.mark.parametrize("name", RIGHT)
def test_what_was_right_is_said_again(name):
    verdict, place = said(kept(name)), RIGHT[name]
    if place is None:
        assert not verdict["loud"]
        return
    assert place in verdict["verdict"]
    file, line = place.split("/")[-1].split(":")
    assert [file, int(line)] in verdict["places"]
