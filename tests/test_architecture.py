"""The layer rule of docs/architecture.md, held over all imports."""

import ast
import re

from tests.paths import ROOT

HOTLOOP = ROOT / "src" / "hotloop"
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def block(name: str) -> list[str]:
    (lines,) = re.findall(rf"^```{name}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return lines.splitlines()


LEVEL = {p: n for n, line in enumerate(block("layers")) for p in re.findall(r"[a-z_]+", line)}
FOLDERS = {p: rest.split(", ") for p, _, rest in (x.partition(": ") for x in block("folders"))}


def place(module: list[str]) -> tuple[int, int, str]:
    """Return the layer of a module, the position of its folder in the package, and the package."""
    package, folder = [*module, "."][:2]
    folders = FOLDERS.get(package, ["."])
    return LEVEL[package], folders.index(folder if folder in folders else "."), package


def imports(tree: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            start = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            names += [start + alias.name for alias in node.names]
    return [name for name in names if name.split(".")[0] == "hotloop"]


def test_every_folder_has_its_place_and_imports_point_down():
    wrong = {f"{path.parent.parent.name}/{path.parent.name} stands in no line of the block folders"
             for path in HOTLOOP.glob("*/*/__init__.py")
             if path.parent.name not in FOLDERS.get(path.parent.parent.name, ())}  # fmt: skip
    for path in {*HOTLOOP.rglob("*.py")} - {HOTLOOP / "__init__.py"}:
        module = list(path.relative_to(HOTLOOP).with_suffix("").parts)
        layer, folder, package = place(module)
        for name in imports(ast.parse(path.read_text())):
            level, position, other = place(name.split(".")[1:])
            if level > layer or (level == layer and (other != package or position > folder)):
                wrong.add(f"{'/'.join(module)}.py must not import {name}")
    assert not wrong, "\n".join(sorted(wrong))
