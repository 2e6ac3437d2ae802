import importlib
import json
import os
import sys
import sysconfig
import weakref
from pathlib import Path

import pytest
import torch

import hotloop.observe.hooks.stack_frames as frames
from hotloop.core.env import compile_cache
from hotloop.core.finding import SourceLocation
from hotloop.observe.hooks.stack_frames import DEEPEST, framework, here, is_own, names, shown, walk


def test_own_is_what_no_library_and_no_generator_wrote():
    assert is_own(__file__)
    assert is_own("train.py")
    assert is_own("<ipython-input-3-abc>")
    assert not is_own("<frozen importlib._bootstrap>")
    assert not is_own(str(compile_cache() / "kv" / "ckvyobi2.py"))  # written by torch.compile
    assert is_own("/home/me/kv/ckvyobi2.py")
    assert not is_own("<string>")
    assert not is_own(json.__file__)
    assert not is_own(torch.__file__)
    assert not is_own(frames.__file__)
    assert not is_own(os.path.join(sysconfig.get_path("scripts"), "hotloop")), "what started us"


def test_here_is_the_innermost_own_line():
    assert here() == SourceLocation(file=__file__, line=sys._getframe().f_lineno)
    seen = json.loads("{}", object_hook=lambda _: here())
    assert seen.line == sys._getframe().f_lineno - 1, "a library stands between"


def test_a_walk_is_innermost_first_and_of_bounded_depth():
    def deep(left: int):
        return walk(sys._getframe()) if left == 0 else deep(left - 1)

    stack = deep(DEEPEST + 40)
    assert len(stack) == DEEPEST
    assert {code.co_name for code, _ in stack} == {"deep"}
    assert walk(None) == ()


def test_a_stack_is_shown_with_absolute_files_and_whose_they_are():
    code = compile("def f(): pass", "somewhere.py", "exec")
    own, library = shown(((code, 7), (json.dumps.__code__, 0)))
    assert (own.file, own.line, own.own) == (str(Path("somewhere.py").absolute()), 7, True)
    assert (library.own, library.function) == (False, "dumps")
    assert library.line == json.dumps.__code__.co_firstlineno, "unknown lines: the function's"


def called_from(file: str):
    """Call `framework` from code of a file of that name."""
    space = {"framework": framework}
    exec(compile("found = framework()", file, "exec"), space)
    return space["found"]


def test_the_loop_is_that_of_the_outermost_framework_on_the_stack():
    assert framework() == "plain"
    assert called_from("lib/site-packages/accelerate/optimizer.py") == "accelerate"
    assert called_from("lib/site-packages/transformers/trainer.py") == "transformers"
    assert called_from("lib/site-packages/transformers/optimization.py") == "plain"
    assert called_from("lib/site-packages/lightning/pytorch/loops/fit_loop.py") == "lightning"
    assert called_from("lib/site-packages/lightning/fabric/wrappers.py") == "fabric"


def test_the_names_of_a_frame_keep_nothing_alive():
    class Thing:
        pass

    def function() -> list[weakref.ref[Thing]]:
        thing = Thing()
        kept = weakref.ref(thing)
        assert names(sys._getframe())["thing"] is thing
        del thing
        return [kept, kept()]

    assert function()[1] is None


def test_names_that_a_function_asked_for_itself_stay_as_they_were():
    def function() -> dict[str, object]:
        value = 1
        mine = locals()
        value = 2
        names(sys._getframe())
        return {**mine, "now": value}

    assert (function()["value"], function()["now"]) == (1, 2)


X = "the module's"


def test_a_functions_own_names_come_first_and_hide_global_ones():
    X = "its own"  # noqa: N806
    found = names(sys._getframe())
    assert found["X"] == X
    assert next(iter(found)) == "X"
    assert found["names"] is names


def test_here_is_nowhere_where_an_import_stands_between():
    places = []
    look = compile("lambda *_: places.append(here(imports=False))", "<a library's finder>", "eval")
    find = eval(look, {"places": places, "here": here})
    sys.meta_path.insert(0, type("Finder", (), {"find_spec": find}))
    try:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("nothing_of_this_name")
    finally:
        del sys.meta_path[0]
    find()
    assert places[0] is None
    assert places[1].line == find_line()


def find_line() -> int:
    lines = Path(__file__).read_text().splitlines()
    return lines.index("    find()") + 1
