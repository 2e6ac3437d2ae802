"""The recipes on null cards: each wait is explained; as many launches and bytes as before."""

import itertools

import pytest
from tests.nullcard.golden import LOOKED_AT, hold
from tests.nullcard.recipes import CARDS, RECIPES, SETTINGS, explained
from tests.nullcard.training import trainer

pytestmark = pytest.mark.nullcard

CASES = list(itertools.product(RECIPES, CARDS))
# torch's allocator takes memory from the driver in units of 20 MiB, small tensors in others of 2.
UNIT = 20 << 20
MOST = 1.1  # reserved bytes over those of the tensors, at their peaks
TOO_MUCH = {
    # A batch that is wider than all before it finds free blocks between tensors that stay, each too
    # small for its own. Padding to a few widths would mend it.
    ("chat-sft padded", "t4"): 1.26,
    ("expert-sft dora packed", "rtx4090"): 1.15,
    ("expert-sft dora packed", "rtx3090"): 1.15,
}


def named(recipe, card, one):
    return f"{recipe.named(one)} on {card}"


each_run = pytest.mark.parametrize(
    ("case", "one"),
    [
        pytest.param((recipe, card), one, id=named(recipe, card, one))
        for recipe, card in CASES
        for one in recipe.runs
    ],
)


@pytest.fixture(scope="module")
def trained(interpreter):
    """Train a recipe on a card, once; return what each of its runs did."""
    pytest.importorskip("transformers", reason="the models are transformers' (hotloop[hf])")
    with trainer(interpreter) as train:
        yield train


def run_of(trained, case, one):
    facts = trained(*case)
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
    ran, fp16 = run_of(trained, case, one), case[1] == "t4"
    for number, step in enumerate(ran["steps"], 1):
        if number > LOOKED_AT:
            is_read = number % SETTINGS["log_every"] == 0
            waits = explained("log interval", one, fp16=fp16) if is_read else {}
            assert step["waits"] == waits, f"step {number}"
    for at, waits in enumerate(ran["validations"]):
        assert waits == explained("validation", one, is_first=at == 0, fp16=fp16)
    for waits in filter(None, ran["saves"]):
        assert waits == explained("save", one, fp16=fp16)


@each_run
def test_a_recipe_launches_and_reserves_as_much_as_before(trained, case, one):
    (recipe, card), ran = case, run_of(trained, case, one)
    hold(recipe.named(one), card, trained(*case)["torch"], ran)


@each_run
def test_little_is_reserved_beside_the_tensors(trained, case, one):
    ran = run_of(trained, case, one)
    most = TOO_MUCH.get((case[0].name, case[1]), MOST)
    assert ran["reserved"] <= most * ran["needed"] + 3 * UNIT
