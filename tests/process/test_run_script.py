import os
import signal
import subprocess
import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotloop.core.errors import UsageError
from hotloop.process.run_script import Left, ScriptTarget, Stopped, run


@pytest.fixture(autouse=True)
def this_process() -> Iterator[None]:
    """Give the process back what a script takes over."""
    old = sys.argv, sys.orig_argv, sys.path[:], sys.modules["__main__"], sys.excepthook, Path.cwd()
    yield
    sys.argv, sys.orig_argv, sys.path[:], sys.modules["__main__"], sys.excepthook = old[:5]
    os.chdir(old[5])


def launched(target: ScriptTarget) -> tuple[object, list[BaseException | None]]:
    """Run it here; return the exit code it leaves with and what `finished` was told."""
    told: list[BaseException | None] = []
    with pytest.raises(Left) as left:
        run(target, finished=lambda error: told.append(error))
    return left.value.code, told


def script(folder: Path, text: str, *args: str) -> ScriptTarget:
    path = folder / "train.py"
    path.write_text(text)
    return ScriptTarget.of([str(path), *args])


def test_a_script_sees_what_it_would_see_of_python(tmp_path, capsys):
    (tmp_path / "near.py").write_text("name = 'neighbour'")
    text = (
        "import sys, near\n"
        "assert __name__ == '__main__' and __spec__ is None and __package__ is None\n"
        "assert sys.modules['__main__'].__dict__ is globals()\n"
        "assert __file__ == sys.argv[0] and __annotations__ == {} and __cached__ is None\n"
        "print(near.name, sys.argv[1:], sys.orig_argv[1:] == sys.argv, sys.path[0])\n"
    )
    assert launched(script(tmp_path, text, "a b", "--x")) == (0, [None])
    assert capsys.readouterr().out == f"neighbour ['a b', '--x'] True {tmp_path}\n"


@pytest.mark.parametrize(
    ("ends", "code", "kind"),
    [
        ("", 0, type(None)),
        ("import sys; sys.exit()", None, SystemExit),
        ("import sys; sys.exit(3)", 3, SystemExit),
        ("import sys; sys.exit('no data')", "no data", SystemExit),
        ("1 / 0", 1, ZeroDivisionError),
    ],
)
def test_it_leaves_as_the_script_would(ends, code, kind, tmp_path, capsys):
    left, told = launched(script(tmp_path, ends))
    assert left == code
    assert [type(error) for error in told] == [kind]
    capsys.readouterr()


def test_a_code_of_ours_replaces_the_scripts(tmp_path):
    with pytest.raises(Left) as left:
        run(script(tmp_path, "raise SystemExit(3)"), finished=lambda error: 0)
    assert left.value.code == 0


def test_a_traceback_has_no_frame_of_ours_not_even_in_what_it_was_raised_from(tmp_path, capsys):
    text = "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError(2) from error"
    assert launched(script(tmp_path, text))[0] == 1
    path = tmp_path / "train.py"
    plain = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=60)
    assert capsys.readouterr().err == plain.stderr


def test_a_hook_that_fails_is_told_as_python_tells_it(tmp_path, capsys):
    text = "import sys\ndef hook(*args):\n    raise OSError('full')\nsys.excepthook = hook\n1 / 0\n"
    assert launched(script(tmp_path, text))[0] == 1
    said = capsys.readouterr().err
    assert said.startswith("Error in sys.excepthook:")
    assert "OSError: full\n\nOriginal exception was:\nTraceback" in said
    assert said.endswith("ZeroDivisionError: division by zero\n")


def test_a_syntax_error_is_told_without_a_traceback(tmp_path, capsys):
    with pytest.raises(Left) as left:
        run(script(tmp_path, "a = (\n"), finished=lambda error: None)
    assert left.value.code == 1
    assert capsys.readouterr().err.startswith(f'  File "{tmp_path / "train.py"}", line 1\n')


def test_a_module_runs_as_with_m(tmp_path, capsys):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "net.py").write_text("width = 3")
    (package / "__main__.py").write_text(
        "import sys\nfrom . import net\nprint(net.width, __package__, __spec__.name, sys.path[0])"
    )
    os.chdir(tmp_path)
    assert launched(ScriptTarget.of(["-m", "pack", "x"])) == (0, [None])
    assert capsys.readouterr().out == f"3 pack pack.__main__ {tmp_path}\n"
    assert sys.argv == [str(package / "__main__.py"), "x"]
    for name in [name for name in sys.modules if name.split(".")[0] == "pack"]:
        del sys.modules[name]


ASKS = (
    "import sys\nprint(__file__, sys.argv[0], sys.path[0], __package__, __cached__)\n"
    "print(__spec__ and (__spec__.name, __spec__.origin), type(__loader__).__name__)\n"
)


@pytest.mark.parametrize(
    "path", ["up.py", "./up.py", "link/../up.py", "../{}/up.py", "app", "a.zip"]
)
def test_a_script_a_folder_and_a_zip_file_are_told_of_as_by_python(path, tmp_path, capfd):
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "deep")
    (tmp_path / "app").mkdir()
    for place in ("up.py", "far/up.py", "app/__main__.py"):
        (tmp_path / place).write_text(ASKS)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("__main__.py", ASKS)
    os.chdir(tmp_path)
    path = path.format(tmp_path.name)
    subprocess.run([sys.executable, path], check=True, timeout=60)
    plain = capfd.readouterr().out
    assert launched(ScriptTarget.of([path]))[0] == 0
    assert capfd.readouterr().out == plain


def test_a_zip_file_without_a_main_is_said(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("train.py", "")
    with pytest.raises(UsageError, match=r"no __main__\.py in"):
        run(ScriptTarget.of([str(tmp_path / "a.zip")]), finished=lambda error: None)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "a script is missing"),
        (["-m"], "needs the name of a module"),
        (["nowhere.py"], "there is no script 'nowhere.py'"),
        ([os.path.dirname(__file__)], "without a __main__.py"),
    ],
)
def test_what_cannot_be_run_is_said(argv, said):
    with pytest.raises(UsageError, match=said):
        ScriptTarget.of(argv)


def test_a_module_that_is_not_there_is_said():
    with pytest.raises(UsageError, match="no module called 'no_such_module_here'"):
        run(ScriptTarget.of(["-m", "no_such_module_here"]), finished=lambda error: None)


def test_a_package_that_cannot_be_imported_is_told_as_its_own_error(tmp_path, capsys):
    (tmp_path / "broken_pack").mkdir()
    (tmp_path / "broken_pack" / "__init__.py").write_text("import no_such_dependency")
    (tmp_path / "broken_pack" / "train.py").touch()
    os.chdir(tmp_path)
    code, [told] = launched(ScriptTarget.of(["-m", "broken_pack.train"]))
    assert (code, type(told)) == (1, ModuleNotFoundError)
    said = capsys.readouterr().err
    assert said.count("  File ") == 1, said
    assert said.endswith("No module named 'no_such_dependency'\n")
    with pytest.raises(UsageError, match=r"no module called 'no_such_pack\.train'"):
        run(ScriptTarget.of(["-m", "no_such_pack.train"]), finished=lambda error: None)


def test_a_thread_that_waits_for_the_main_thread_is_not_waited_for(tmp_path):
    text = (
        "import threading\nover = threading.Event()\nthreading.Thread(target=over.wait).start()\n"
    )
    target = script(tmp_path, text)
    with pytest.raises(Left):
        run(target, finished=lambda error: sys.modules["__main__"].over.set())


def test_stopping_passes_a_script_that_catches_exceptions_and_exits_with_0():
    assert not issubclass(Stopped, Exception)
    assert (Stopped("steady").code, Stopped("steady").why) == (0, "steady")


def test_the_command_is_what_follows_python():
    assert ScriptTarget(name="a.py", is_module=False, args=("x",)).command == ("a.py", "x")
    assert ScriptTarget(name="a.b", is_module=True).command == ("-m", "a.b")


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_an_interrupted_script_dies_of_the_signal_when_its_exit_handlers_are_done(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import atexit\natexit.register(print, 'handler')\nprint('begin')\n"
        "raise KeyboardInterrupt\n"
    )
    code = (
        "import sys; from hotloop.process.run_script import ScriptTarget, run\n"
        "run(ScriptTarget.of(sys.argv[1:]), finished=lambda error: print('finished', flush=True))"
    )
    command = [sys.executable, "-c", code, str(path)]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert seen.returncode == -signal.SIGINT
    assert seen.stdout.split() == ["begin", "finished", "handler"]
    assert seen.stderr.endswith("KeyboardInterrupt\n")
    assert "hotloop" not in seen.stderr


def test_the_main_module_is_the_scripts_own(tmp_path):
    launched(script(tmp_path, "x = 1"))
    assert isinstance(sys.modules["__main__"], types.ModuleType)
    assert sys.modules["__main__"].x == 1
