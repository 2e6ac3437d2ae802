"""Where a finding on the wait for data points when worker processes read."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.finding import SourceLocation
from hotloop.rules.support.data_wait import read_by_workers

LOADER = replace(healthy().loaders[0], workers=2, dataset="MNIST", getitem=None)
CODE = "from torchvision import datasets\n\ndata = datasets.MNIST('data', transform=to_tensor)\n"


def test_a_data_set_of_a_library_is_found_where_it_is_built():
    case = healthy(sources={SCRIPT: CODE})
    assert read_by_workers(case, LOADER) == [SourceLocation(file=SCRIPT, line=3)]
    assert read_by_workers(case, replace(LOADER, workers=0)) == []
    assert read_by_workers(case, None) == []


def test_a_data_set_of_the_project_is_found_where_it_reads_a_row():
    reads = SourceLocation(file=SCRIPT, line=12)
    assert read_by_workers(healthy(), replace(LOADER, getitem=reads)) == [reads]
