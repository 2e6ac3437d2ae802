import pytest

from hotloop.core.errors import DeviceError
from hotloop.export.trackers.sink import need


def test_an_absent_package_names_the_extra():
    with pytest.raises(DeviceError, match=r"pip install 'hotloop\[wandb\]'"):
        need("no_such_package_anywhere", extra="wandb")


def test_a_package_that_is_there_is_returned():
    assert need("json", extra="wandb").dumps([]) == "[]"
