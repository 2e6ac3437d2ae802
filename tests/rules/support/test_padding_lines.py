"""The line that pads is one of the data set that feeds training."""

from dataclasses import replace

import pytest
from tests.golden.cases import SCRIPT, healthy
from tests.observe.ledger.test_places import TWO_SETS

from hotloop.core.finding import SourceLocation
from hotloop.rules.support.padding_lines import padding_lines


@pytest.mark.parametrize(("getitem", "line"), [(3, 4), (10, 8), (None, 4)])
def test_of_two_data_sets_that_of_the_training_pads(getitem, line):
    place = None if getitem is None else SourceLocation(file=SCRIPT, line=getitem)
    loader = replace(healthy().loaders[0], getitem=place)
    case = healthy(sources={SCRIPT: TWO_SETS}, loaders=(loader,))
    assert padding_lines(case) == [SourceLocation(file=SCRIPT, line=line)]
