import json

import pytest
import torch

from hotloop.core.errors import UsageError
from hotloop.data.tokenising.char_vocabulary import CharVocabulary
from hotloop.recipes.building.sampling_options import SamplingOptions
from hotloop.recipes.char_lm.config import CharLmConfig, CharModel, Diffusion
from hotloop.recipes.char_lm.recipe import build_model
from hotloop.recipes.char_lm.sampling import sample

VOCABULARY = CharVocabulary(characters=tuple("\n abcdefgh"))
KEPT = {"vocabulary.json": json.dumps(VOCABULARY.to_json())}
CONTEXT = 24
objectives = pytest.mark.parametrize("objective", ["next-char", "absorbing", "uniform"])


def config(objective: str) -> CharLmConfig:
    model = CharModel(layers=1, heads=2, width=16, context=CONTEXT)
    if objective == "next-char":
        return CharLmConfig(model=model)
    noise = Diffusion(transition=objective)
    return CharLmConfig(objective="diffusion", model=model, diffusion=noise)


def texts(objective: str, progress=None, **wanted) -> list[str]:
    made = config(objective)
    torch.manual_seed(0)
    model = build_model(made, len(VOCABULARY)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return sample(made, model, KEPT, SamplingOptions(**wanted), progress=progress)


@objectives
def test_texts_begin_with_the_prompt_and_have_the_length_asked_for(objective):
    found = texts(objective, prompt="bad ", length=7, samples=3)
    assert [(text[:4], len(text)) for text in found] == [("bad ", 11)] * 3
    assert len(set(found)) > 1
    assert [len(text) for text in texts(objective, length=5)] == [5]


@objectives
def test_equal_seeds_give_equal_texts(objective):
    one = texts(objective, length=20, seed=3)
    assert one == texts(objective, length=20, seed=3)
    assert one != texts(objective, length=20, seed=4)


@pytest.mark.parametrize("objective", ["absorbing", "uniform"])
@pytest.mark.parametrize("prompt", [None, "abc"])
def test_denoising_ends_with_the_suffix_and_fills_the_context_by_default(objective, prompt):
    (text,) = texts(objective, prompt=prompt, suffix="gé", steps=3)
    assert len(text) == CONTEXT
    assert text.startswith(prompt or "")
    assert text.endswith("gé"), "as it was typed, also what the vocabulary does not have"
    assert set(text[:-1]) <= set(VOCABULARY.characters)
    (text,) = texts(objective, prompt=prompt, suffix="g", length=5)
    assert len(text) == len(prompt or "") + 6


def test_a_short_text_is_cut_from_a_whole_window():
    """What is drawn first does not depend on what is thrown away."""
    assert texts("absorbing", length=5)[0] == texts("absorbing", length=CONTEXT)[0][:5]


@pytest.mark.parametrize(
    ("objective", "wanted", "message"),
    [
        ("next-char", {"steps": 8}, "--steps is for runs with objective=diffusion"),
        ("next-char", {"suffix": "a"}, "--suffix is for runs with objective=diffusion"),
        ("uniform", {"temperature": 0.8}, "leave --temperature out"),
        ("uniform", {"length": 25}, "windows of 24: ask for fewer, or train with a larger model.c"),
        ("uniform", {"prompt": "a" * 20, "suffix": "a" * 4}, "20 characters of --prompt, 1 of"),
        ("next-char", {"prompt": ""}, "at least one character"),
        ("uniform", {"suffix": ""}, "at least one character"),
        ("uniform", {"steps": 0}, "must be 1 or more"),
        ("next-char", {"length": 0}, "must be 1 or more"),
        ("next-char", {"samples": 0}, "must be 1 or more"),
        ("next-char", {"temperature": -0.1}, "0 or more"),
        ("next-char", {"temperature": float("nan")}, "0 or more"),
    ],
)
def test_what_cannot_be_drawn_is_refused(objective, wanted, message):
    with pytest.raises(UsageError, match=message):
        texts(objective, **wanted)


@pytest.mark.parametrize(
    ("objective", "wanted", "whole"),
    [("next-char", {"length": 6}, 6), ("uniform", {"steps": 4}, 4), ("absorbing", {}, 128)],
)
def test_progress_counts_characters_or_steps(objective, wanted, whole):
    told = []
    texts(objective, lambda done, of: told.append((done, of)), **wanted)
    assert told == [(done, whole) for done in range(1, whole + 1)]
