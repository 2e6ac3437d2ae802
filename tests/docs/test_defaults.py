"""docs/defaults.md is made from the benchmark's figures; this holds it and the defaults to them."""

import importlib.util
import json

import pytest
from tests.paths import ROOT

from hotloop.config.schema import flatten
from hotloop.recipes.registry import RECIPES

DOCS = ROOT / "docs"


def generator():
    spec = importlib.util.spec_from_file_location("defaults_page", DOCS / "defaults.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SWEEPS = json.loads(generator().SOURCE.read_text())["sweeps"]


def test_the_page_is_up_to_date():
    made = generator()
    is_up_to_date = made.page({"sweeps": SWEEPS}) == made.PAGE.read_text()
    assert is_up_to_date, "docs/defaults.md is older than its figures: run python docs/defaults.py"


@pytest.mark.parametrize("name", SWEEPS)
def test_what_the_page_calls_the_default_is_it(name):
    sweep = SWEEPS[name]
    resolve = RECIPES[sweep["recipe"]].resolve
    words = ["data.path=rows.jsonl", *sweep["settings"]]
    if sweep["recipe"] != "char-lm":
        words.append("model.name=m")
    typed = resolve([*words, *sweep["variants"][sweep["now"]]]).config
    (key,) = {word.partition("=")[0] for word in sweep["variants"][sweep["now"]]}
    assert flatten(resolve(words).config)[key] == flatten(typed)[key]
