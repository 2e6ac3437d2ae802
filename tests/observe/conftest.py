"""Observes small scripts in this process, as the script host does it for `hotloop doctor`."""

import sys
import textwrap
import types

import pytest

from hotloop.observe.build_case import build_case
from hotloop.observe.observer import ScriptObserver
from hotloop.observe.when_to_stop import StopLimits
from hotloop.process.run_script import ScriptTarget, Stopped


@pytest.fixture
def observed(tmp_path):
    """A function: the text of a script -> its case."""

    def observe(text, *, steps=None, full=False):
        path = tmp_path / "train.py"
        path.write_text(textwrap.dedent(text))
        observer = ScriptObserver(StopLimits(steps=steps, seconds=None, full=full))
        kept = None  # a traceback keeps the script's variables, as it does in a stopped run
        module = types.ModuleType("script")
        module.__file__ = str(path)
        sys.modules["script"] = module  # inspect asks it for its file
        observer.start()
        try:
            exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
        except Stopped as stopped:
            kept = stopped
        finally:
            observer.finish()
            del sys.modules["script"]
        case = build_case(observer, ScriptTarget(name=str(path), is_module=False))
        assert observer.hooks.fault is None, observer.hooks.fault
        del kept
        return case

    return observe
