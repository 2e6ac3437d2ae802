"""The layer rule of docs/architecture.md, held over all imports."""

import ast
import re

from tests.paths import ROOT

HOTLOOP = ROOT / "src" / "hotloop"
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def block(name: str) -> list[str]:
    (found,) = re.findall(rf"^```{name}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return found.splitlines()


LEVEL = {p: n for n, line in enumerate(block("layers")) for p in re.findall(r"[a-z_]+", line)}
FOLDERS = {p: rest.split(", ") for p, _, rest in (x.partition(": ") for x in block("folders"))}


def place(module: list[str]) -> tuple[int, int, str]:
    """Return the layer of a module, the position of its folder in the package, and the package."""
    package, folder = [*module, "."][:2]
    if package not in FOLDERS or folder not in FOLDERS[package]:
        folder = "."
    return LEVEL[package], FOLDERS.get(package, ["."]).index(folder), package


def imports(tree: ast.AST) -> list[str]:
    """Return what a file imports: at its top, in functions and under TYPE_CHECKING."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            start = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names += [start + alias.name for alias in node.names]
    return [name for name in names if name.split(".")[0] == "hotloop"]


def test_imports_point_down():
    upward = []
    for path in {*HOTLOOP.rglob("*.py")} - {HOTLOOP / "__init__.py"}:
        module = list(path.relative_to(HOTLOOP).with_suffix("").parts)
        layer, folder, package = place(module)
        for name in imports(ast.parse(path.read_text())):
            other = place(name.split(".")[1:])
            if other[0] > layer or (
                other[0] == layer and (other[2] != package or other[1] > folder)
            ):
                upward.append(f"{'/'.join(module)}.py must not import {name}")
    assert not upward, "\n".join(sorted(upward))
