import importlib
import sys
import traceback

import pytest

from hotloop.process.import_hooks import ImportHooks


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that nobody has imported."""
    (tmp_path / "newcomer.py").write_text("ready = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "newcomer"
    sys.modules.pop("newcomer", None)


def test_a_module_is_told_of_once_it_is_whole(module):
    seen, arrivals = [], ImportHooks()
    arrivals.when(module, lambda: seen.append(sys.modules[module].ready))
    assert seen == []
    loader = importlib.import_module(module).__spec__.loader
    assert seen == [True]
    assert "exec_module" not in vars(loader), "the loader is as it was"
    importlib.reload(sys.modules[module])
    assert seen == [True], "once"
    arrivals.stop()


def test_a_module_that_is_there_is_told_of_at_once(module):
    importlib.import_module(module)
    seen = []
    ImportHooks().when(module, lambda: seen.append(1))
    assert seen == [1]


def test_one_that_stopped_hears_nothing_and_leaves_no_finder(module):
    before = list(sys.meta_path)
    seen, arrivals = [], ImportHooks()
    arrivals.when(module, lambda: seen.append(1))
    assert sys.meta_path != before
    arrivals.stop()
    assert sys.meta_path == before
    importlib.import_module(module)
    assert seen == []


def test_a_module_that_is_nowhere_is_missing_as_ever():
    arrivals = ImportHooks()
    arrivals.when("no_such_module_here", lambda: None)
    try:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("no_such_module_here")
    finally:
        arrivals.stop()


def test_a_module_that_fails_shows_no_frame_of_ours(tmp_path, monkeypatch):
    (tmp_path / "failing.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    arrivals = ImportHooks()
    arrivals.when("failing", lambda: None)
    try:
        with pytest.raises(ZeroDivisionError) as caught:
            import failing  # noqa: F401
    finally:
        arrivals.stop()
    shown = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert shown == [__file__, str(tmp_path / "failing.py")]


def test_two_may_wait_for_one_module(module):
    seen, first, second = [], ImportHooks(), ImportHooks()
    first.when(module, lambda: seen.append("first"))
    second.when(module, lambda: seen.append("second"))
    importlib.import_module(module)
    assert sorted(seen) == ["first", "second"]
    first.stop()
    second.stop()
