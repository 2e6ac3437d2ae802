"""The import rules and sizes of ARCHITECTURE 5, as a test."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hotloop

ROOT = Path(__file__).parents[1] / "src" / "hotloop"
LAYERS = [  # lowest first; a module may import its own folder and anything lower
    {"core"},
    {"judging", "guides"},  # what rules share; pages to read: torch-free
    {"session", "rules"},  # rules: torch-free
    {"probe"},
    {"ranks"},  # several processes: torch.distributed is used there only
    {"techniques", "data", "models"},
    {"recipes", "training"},
    {"request", "preflight"},
    {"spreading"},
    {"forecasting"},
    {"planning"},
    {"assemble"},
    {"placing", "looping"},
    {"execute", "estimate", "exporting"},
    {"checks", "tryout"},
    {"engine", "rehearsal", "checkup"},
    {"diagnose", "launch", "logs"},  # torch-free
    {"shortrun"},  # run by Python itself in child processes
    {"ceilings", "stopping"},
    {"host"},
    {"intervene", "scriptplan", "suggest"},
    {"casebook", "gather", "recorded"},
    {"observe"},
    {"library"},
    {"report"},
    {"tuning", "monitor", "trackers"},
    {"bench", "cleaning"},
    {"cli"},
    {"auto"},
    {"children"},  # run by Python itself in child processes
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FILES = sorted(ROOT.rglob("*.py"))
FEEDS = {"buffers", "mapped", "noise", "tokenrows", "windows"}  # of data: they make tensors
TORCH_FREE = sorted(
    ".".join(("hotloop", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in FILES
    if path.relative_to(ROOT).parts[0]
    in {
        "cleaning",
        "core",
        "judging",
        "guides",
        "rules",
        "techniques",
        "report",
        "monitor",
        "trackers",
        "cli",
        "session.py",
    }
    or path.name.endswith(("_config.py", "_presets.py"))
    or (path.parent.name == "data" and path.stem not in FEEDS)
    or path.name
    in {"store.py", "registry.py", "request.py", "library.py", "auto.py", "__init__.py"}
    | {
        "intervene.py",
        "scriptplan.py",
        "suggest.py",
        "asking.py",
        "diagnose.py",
        "logs.py",
        "ceilings.py",
        "shortrun.py",
        "child.py",
        "warden.py",
        "storage.py",
    }
)
LONGEST_FILE, LONGEST_FUNCTION, LONGEST_LOOP = 400, 60, 80  # lines
every_file = pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))


def imported(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hotloop":
            whole = node.module == "hotloop"
            names += [f"hotloop.{a.name}" for a in node.names] if whole else [node.module]
        elif isinstance(node, ast.Import):
            names += [a.name for a in node.names if a.name.startswith("hotloop.")]
    return [name.split(".")[1] for name in names if not name.endswith("__version__")]


@every_file
def test_imports_point_down(path: Path):
    me = path.relative_to(ROOT).with_suffix("").parts[0]
    if me == "__init__":
        return
    wrong = [name for name in imported(path) if name != me and LEVEL[name] >= LEVEL[me]]
    assert not wrong, f"{me} must not import {wrong}"


def test_torch_free_modules_leave_torch_out():
    code = (
        "import importlib, sys\n"
        f"for name in {TORCH_FREE!r}:\n"
        "    importlib.import_module(name)\n"
        "    assert 'torch' not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@every_file
def test_files_and_functions_stay_short(path: Path):
    source = path.read_text()
    assert source.count("\n") <= LONGEST_FILE
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            allowed = LONGEST_LOOP if (path.name, node.name) == ("loop.py", "train") else 60
            assert (node.end_lineno or 0) - node.lineno < allowed, node.name


@every_file
def test_every_module_says_what_it_is_for(path: Path):
    tree = ast.parse(path.read_text())
    if tree.body:  # the empty __init__ files of sub-packages
        assert ast.get_docstring(tree), "a module begins with one sentence on what it is for"


@every_file
def test_nothing_is_swallowed(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else ""
            if caught in ("", "Exception", "BaseException"):
                assert any(map(_tells, ast.walk(node))), node.lineno


def _tells(node: ast.AST) -> bool:
    """Whether an error goes on: raised, printed, told to `failed`, or kept as somebody's fault."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] in {"failed", "print", "print_exc", "say"}
    kept = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.Raise) or (kept and node.attr == "fault")


@every_file
def test_only_files_py_opens_for_writing_and_only_env_py_reads_the_environment(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            if path.name != "files.py":
                assert node.attr not in {"write_text", "write_bytes", "save_file"}, node.lineno
            if path.name != "env.py":
                assert node.attr not in {"environ", "getenv"}, node.lineno


def test_public_names_are_exactly_these():
    assert hotloop.__all__ == ["doctor", "load_run", "train", "tune"]
    for name in hotloop.__all__:
        assert callable(getattr(hotloop, name))


def test_sub_packages_export_nothing():
    empty = [p for p in ROOT.glob("*/__init__.py") if p.parent.name not in {"techniques", "rules"}]
    assert empty
    assert all(p.read_text() == "" for p in empty)
