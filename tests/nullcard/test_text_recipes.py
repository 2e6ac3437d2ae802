"""The recipes of texts on null cards: each wait is explained, and as many launches as before."""

import itertools
import os

import pytest
from tests.nullcard.build import build
from tests.nullcard.launches import LOOKED_AT, TRAIN, hold_launches
from tests.nullcard.programs import run
from tests.nullcard.recipes import CARDS, RECIPES, explained, write_files
from tests.preloaded import Preloaded

pytestmark = pytest.mark.nullcard

SETTINGS = {"max_steps": 10, "log_every": 5, "eval_every_steps": 7, "save_every_steps": 7}
SETTINGS |= {"batch_size": 32, "accumulation": 1, "epochs": "null", "eval_every_epochs": "null"}
MODELS = ("transformers.models.bert.modeling_bert", "transformers.models.qwen3.modeling_qwen3")
CASES = list(itertools.product(RECIPES, CARDS))


def named(recipe, card, one):
    return f"{recipe.name} {one.name} on {card}".replace("  ", " ")


each_run = pytest.mark.parametrize(
    ("case", "one"),
    [
        pytest.param((recipe, card), one, id=named(recipe, card, one))
        for recipe, card in CASES
        for one in recipe.runs
    ],
)


@pytest.fixture(scope="module")
def trained(interpreter, tmp_path_factory):
    """Train a recipe on a card, once; return what each of its runs did."""
    pytest.importorskip("transformers", reason="the models are transformers' (hotloop[hf])")
    folder, made = tmp_path_factory.mktemp("recipes"), {}
    write_files(folder)
    env = {**os.environ, "LD_PRELOAD": str(build())}
    with Preloaded(*MODELS, python=interpreter, env=env) as process:

        def train(case):
            if case not in made:
                recipe, card = case
                words = recipe.words(folder)
                for part in ("training", "router_training", "joint_training")[: len(recipe.runs)]:
                    words += [f"{part}.{key}={value}" for key, value in SETTINGS.items()]
                words += ["--out", str(folder / card / recipe.name), "--quiet"]
                made[case] = run(card, TRAIN.format(words=words), process=process).facts
            return made[case]

        yield train


def run_of(trained, case, one):
    facts = trained(case)
    assert facts["exit"] == 0, facts["said"]
    return facts["runs"][case[0].runs.index(one)]


@each_run
def test_a_recipe_trains_validates_and_saves(trained, case, one):
    ran = run_of(trained, case, one)
    assert len(ran["steps"]) == SETTINGS["max_steps"]
    assert len(ran["validations"]) == 2
    assert sum(bool(save) for save in ran["saves"]) == 3  # after steps 1, 7 and 10


@each_run
def test_a_recipe_waits_only_where_it_is_explained(trained, case, one):
    ran, card = run_of(trained, case, one), case[1]
    for number, step in enumerate(ran["steps"], 1):
        if number > LOOKED_AT:
            is_read = number % SETTINGS["log_every"] == 0
            waits = explained("log interval", one, card) if is_read else {}
            assert step["waits"] == waits, f"step {number}"
    for at, waits in enumerate(ran["validations"]):
        assert waits == explained("validation", one, card, is_first=at == 0)
    for waits in filter(None, ran["saves"]):
        assert waits == explained("save", one, card)


@each_run
def test_a_recipe_launches_as_many_kernels_as_before(trained, case, one):
    steps = run_of(trained, case, one)["steps"][LOOKED_AT:]
    hold_launches(named(*case, one), trained(case)["torch"], steps)
