"""Frames that Python's warnings do not count."""

import sys
import types
import warnings

import pytest

from hotloop.process.internal_frames import as_caller, hide, is_hidden

OURS = """
import functools

def through(call):
    def wrapper(*args):
        return (lambda: call(*args))()
    return wrapper

class Through:
    def __init__(self, call):
        self._call = call
    def __call__(self, *args):
        return self._call(*args)
    @staticmethod
    def plainly(call, *args):
        return call(*args)
    @property
    def called(self):
        return self._call()

@functools.cache
def once(call):
    return call()
"""


def warns() -> None:
    warnings.warn("told", stacklevel=2)


@pytest.fixture
def ours() -> dict:
    module = types.ModuleType("ours")
    module.__dict__["strange"] = warns  # another module's: it keeps its name
    exec(compile(OURS, "ours.py", "exec"), module.__dict__)
    return module.__dict__


WAYS = {
    "a closure": lambda ours: ours["through"](warns)(),
    "a method": lambda ours: ours["Through"](warns)(),
    "a static method": lambda ours: ours["Through"].plainly(warns),
    "a property": lambda ours: ours["Through"](warns).called,
    "a cached function": lambda ours: ours["once"](warns),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("hidden", [False, True])
def test_a_warning_names_who_calls_ours_once_ours_is_hidden(way, hidden, ours):
    if hidden:
        hide(ours)
    with pytest.warns(UserWarning, match="told") as told:
        way(ours)
    assert told[0].filename == (__file__ if hidden else "ours.py")
    assert not is_hidden(warns.__code__)


def test_it_is_hidden_once(ours):
    hide(ours)
    name = ours["through"].__code__.co_filename
    hide(ours)
    assert ours["through"].__code__.co_filename == name


def test_a_function_in_c_warns_of_the_frame_that_is_named():
    with pytest.warns(RuntimeWarning, match="line buffering") as told:
        as_caller(sys._getframe(), open, (__file__, "rb", 1), {}).close()
    line = sys._getframe().f_lineno - 1
    assert (told[0].filename, told[0].lineno) == (__file__, line)
