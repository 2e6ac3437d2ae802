"""An entry says all that the rest needs to know of a recipe, and nothing else names a recipe."""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from tests.paths import ROOT
from tests.test_architecture import imports

from hotloop.config.common import Training
from hotloop.config.schema import flatten
from hotloop.core.case.planned_run import DataKind
from hotloop.recipes.building.ladder import Ladder
from hotloop.recipes.building.protocols import Predict, Sample
from hotloop.recipes.registry import RECIPES

SRC = ROOT / "src" / "hotloop"
# Texts that may name a recipe: below src/hotloop -> why.
TEXTS = {
    "api.py": "the example of a call",
    "cli/main.py": "examples of commands in the help",
    "cli/train.py": "the example of a command in the help",
    "cli/guides/": "examples of commands, and what was measured",
    "config/gpu_presets.py": "says whose presets call GPUs so",
    "jobs/forecast/memory_forecast.py": "what was measured",
    "techniques/": "what was measured",
}
PATHS = ("ladder", "sample", "predict", "section", "manifests", "compares")
FOLDERS = {recipe.package.rpartition(".")[2] for recipe in RECIPES.values()}
NAMES = {*RECIPES, *(name.replace("-", "_") for name in RECIPES)}
# No name of a module such as hotloop.models.task_router, which is a model.
NAME = re.compile(
    rf"(?<![\w.-])({'|'.join(sorted(NAMES))})(?![\w-])|recipes[./]({'|'.join(sorted(FOLDERS))})\b"
)
EVERY = pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))


def files(*endings: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(SRC.rglob("*")):
        name = str(path.relative_to(SRC))
        if path.suffix in endings and not name.startswith("recipes/"):
            yield name, path


def test_no_other_package_imports_the_folder_of_a_recipe():
    inside = tuple(f"hotloop.recipes.{folder}." for folder in FOLDERS)
    wrong = [
        f"{file} imports {name}"
        for file, path in files(".py")
        for name in imports(ast.parse(path.read_text()))
        if f"{name}.".startswith(inside)
    ]
    assert not wrong, (
        "name what is imported in the recipe's entry in recipes/registry.py, and ask that for it: "
        "recipe.load(recipe.predict); what several recipes share belongs in recipes/building/\n"
        + "\n".join(wrong)
    )


def test_no_other_package_names_a_recipe():
    wrong = [
        f"{file}:{number} names {found[0]}"
        for file, path in files(".py", ".md")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := NAME.search(line)) and not file.startswith((*TEXTS,))
    ]
    assert not wrong, (
        "what depends on the recipe belongs in a field of its entry in recipes/registry.py; a text "
        "that must name one as an example is listed in TEXTS of this test, with the reason\n"
        + "\n".join(wrong)
    )


def test_texts_that_may_name_a_recipe_are_no_code():
    wrong = []
    for file, path in files(".py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and node.value in NAMES:
                wrong.append(f"{file}:{node.lineno} is code that goes by the name {node.value!r}")
    assert not wrong, "ask a field of the entry in recipes/registry.py:\n" + "\n".join(wrong)


@EVERY
def test_what_an_entry_names_is_there(recipe):
    for field in PATHS:
        if path := getattr(recipe, field):
            assert recipe.load(path) is not None, f"{recipe.name}: {field}={path}"
    lacking = [n for n in ("prepare_data", "build", "rebuilt") if not hasattr(recipe.load(), n)]
    assert not lacking, f"{recipe.load().__name__} lacks {', '.join(lacking)}"
    assert recipe.sample or recipe.predict, f"{recipe.name} has no `sample` and no `predict`"
    assert bool(recipe.predicts) == bool(recipe.predict), "predicts says what `predict` does"


@EVERY
@pytest.mark.parametrize("protocol", [Sample, Predict])
def test_samples_and_predictions_take_what_the_library_gives(recipe, protocol):
    if not (path := getattr(recipe, protocol.__name__.lower())):
        return
    taken = inspect.signature(recipe.load(path)).parameters
    given = [*inspect.signature(protocol.__call__).parameters][1:]
    lacking = [name for name in given if name not in taken]
    assert not lacking, f"{path} of {recipe.package} takes no {', '.join(lacking)}"


@EVERY
def test_an_entry_stands_under_its_own_name(recipe):
    assert RECIPES[recipe.name] is recipe
    ladder = recipe.load(recipe.ladder)
    assert isinstance(ladder, Ladder)
    assert ladder.recipe == recipe.name
    ids = [rung.id for rung in ladder.rungs]
    assert len(set(ids)) == len(ids), "each rung has an id of its own"
    assert ladder.judged in ids, "targets are about a rung that is there"


@EVERY
def test_a_configuration_has_what_every_run_is_asked_for(recipe):
    keys = {*flatten(recipe.resolve.schema())}
    lacking = ["seed", "preset", "experiment", "init_from", "data.drop_last"]
    lacking += [f"training.{each.name}" for each in fields(Training)]
    lacking = [key for key in lacking if key not in keys]
    assert not lacking, f"{recipe.resolve.schema.__name__} lacks {', '.join(lacking)}"
    assert {*recipe.paths} <= keys, "`paths` are settings of the recipe"


def test_every_kind_of_data_is_that_of_a_recipe():
    assert {*get_args(DataKind)} == {recipe.data for recipe in RECIPES.values() if recipe.data}


def test_ladders_sections_and_manifests_load_without_torch():
    code = (
        "import sys\n"
        "from hotloop.recipes.registry import RECIPES\n"
        "for recipe in RECIPES.values():\n"
        "    for path in filter(None, (recipe.ladder, recipe.section, recipe.manifests)):\n"
        "        recipe.load(path)\n"
        "        assert 'torch' not in sys.modules, (recipe.name, path)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
