"""Nothing is collected while libraries load."""

import gc

import pytest

from hotloop.machine.gc_pause import collector_off


def test_nothing_is_collected_inside_and_the_switch_goes_back() -> None:
    assert gc.isenabled()
    with collector_off():
        assert not gc.isenabled()
        with collector_off():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_puts_the_switch_back_too() -> None:
    with pytest.raises(ImportError), collector_off():
        raise ImportError
    assert gc.isenabled()
