"""What all code of the package keeps to: sizes, a sentence for each module, no swallowed error."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.paths import ROOT
from tests.test_architecture import imports

import hotloop

HOTLOOP = ROOT / "src" / "hotloop"
TREES = {
    str(path.relative_to(HOTLOOP)): ast.parse(path.read_text())
    for path in sorted(HOTLOOP.rglob("*.py"))
}
LONGEST_FILE, LONGEST_FUNCTION = 400, 60  # lines
# What must load without torch: a command, a rule or a report does not wait for it.
TORCH_FREE = (
    *(
        "__init__.py",
        "api.py",
        "auto.py",
        "bench/targets.py",
        "cleanup/",
        "cli/",
        "config/",
        "core/",
    ),
    *("data/readers/", "data/discovery/", "data/statistics/", "data/tokenising/", "data/sampling/"),
    *("diagnosis/apply_techniques.py", "diagnosis/diff.py", "diagnosis/script_plan.py"),
    *("engine/checkpoint/folders.py", "export/trackers/", "jobs/request.py", "monitor/"),
    *("observe/whatif/ceilings.py", "observe/whatif/short_run.py", "process/"),
    *(
        "machine/file_storage.py",
        "nullcard/",
        "recipes/registry.py",
        "rehearse/",
        "report/",
        "rules/",
        "session/",
    ),
)
# Of these folders: they make tensors, or work on them.
TECHNIQUES = {f for f in TREES if f.startswith("techniques/") and f.count("/") == 1}
NEEDS_TORCH = {
    "data/sampling/host_buffers.py",
    *("data/sampling/diffusion_noise.py", "data/sampling/token_rows.py"),
    "data/sampling/context_windows.py",
}

RECIPE_SETTINGS = [
    ".".join(Path(file).with_suffix("").parts[1:])
    for file in TREES
    if file.startswith("recipes/") and file.endswith(("config.py", "presets.py"))
]


def test_what_must_load_without_torch_does():
    names = [
        ".".join(("hotloop", *Path(file).with_suffix("").parts)).removesuffix(".__init__")
        for file in TREES
        if file not in NEEDS_TORCH and (file.startswith(TORCH_FREE) or file in TECHNIQUES)
    ]
    names += ["hotloop.recipes." + part for part in RECIPE_SETTINGS]
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    importlib.import_module(name)\n"
        "    assert 'torch' not in sys.modules, name\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Return each function with its file."""
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                yield file, node


def test_files_and_functions_stay_short():
    long = [file for file in TREES if (HOTLOOP / file).read_text().count("\n") > LONGEST_FILE]
    long += [
        f"{file}:{node.lineno} {node.name}"
        for file, node in functions()
        if (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION
    ]
    assert not long, "\n".join(long)


def test_every_module_says_what_it_is_for():
    silent = [file for file, tree in TREES.items() if tree.body and not ast.get_docstring(tree)]
    assert not silent, "a module begins with one sentence on what it is for:\n" + "\n".join(silent)


def test_a_name_stands_for_one_public_class():
    homes: dict[str, list[str]] = {}
    for file, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(file)
    shared = [f"{name}: {', '.join(files)}" for name, files in homes.items() if len(files) > 1]
    assert not shared, "give each class a name of its own:\n" + "\n".join(shared)


def test_no_file_imports_another_in_a_loop():
    names = {
        ".".join(("hotloop", *Path(file).with_suffix("").parts)).removesuffix(".__init__"): tree
        for file, tree in TREES.items()
    }
    graph = {
        name: {other if other in names else other.rpartition(".")[0] for other in imports(tree)}
        - {name}
        for name, tree in names.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        loop = " -> ".join(error.args[1])
        pytest.fail(f"move what both need to a file of its own: {loop}")


def test_nothing_is_swallowed():
    swallowed = []
    for file, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler):
                caught = ast.unparse(node.type) if node.type else ""
                wide = caught in ("", "Exception", "BaseException")
                if wide and not any(map(_tells, ast.walk(node))):
                    swallowed.append(f"{file}:{node.lineno}")
    assert not swallowed, "\n".join(swallowed)


def _tells(node: ast.AST) -> bool:
    """Whether an error goes on: raised, printed, told to `failed`, or kept as somebody's fault."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] in {"failed", "print", "print_exc", "say"}
    kept = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.Raise) or (kept and node.attr == "fault")


def test_only_files_py_opens_for_writing_and_only_env_py_reads_the_environment():
    only = {
        **dict.fromkeys(("write_text", "write_bytes", "save_file"), "core/storage/files.py"),
        **dict.fromkeys(("environ", "getenv"), "core/env.py"),
    }
    wrong = [
        f"{file}:{node.lineno} {node.attr} belongs in {only[node.attr]}"
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and only.get(node.attr, file) != file
    ]
    assert not wrong, "\n".join(wrong)


def test_public_names_are_exactly_these():
    assert hotloop.__all__ == ["doctor", "load_run", "train", "tune"]
    assert all(callable(getattr(hotloop, name)) for name in hotloop.__all__)


def test_sub_packages_export_nothing():
    told = {"__init__.py", "techniques/__init__.py", "rules/__init__.py"}
    full = [f for f, tree in TREES.items() if f.endswith("__init__.py") and tree.body]
    assert set(full) <= told, f"an __init__.py of a folder stays empty: {set(full) - told}"
