import re
from importlib import import_module
from pathlib import Path

import pytest

import hotloop
from hotloop import rules, techniques
from hotloop.cli.guides.pages import guides, title
from hotloop.cli.main import VERBS
from hotloop.config.schema import flatten
from hotloop.recipes.char_lm.config import CharLmConfig

SYMPTOMS = (
    "cache-not-found", "compile-fails", "left-out", "low-utilisation", "out-of-memory",
    "sdpa-unavailable", "still-slow", "unstable-loss",
)  # fmt: skip
NAMES = tuple(sorted((*SYMPTOMS, "plan-to-code", "regressions", "several-cards", "without-a-card")))
HEADINGS = [
    "What you see", "Find the cause", "What to do, likely gain first", "What does not help",
    "When it is not worth it",
]  # fmt: skip
SOURCE = Path(hotloop.__file__).parent
NO_RULES = {"T4", "R1"}  # a GPU; a check of hotloop doctor RECIPE
every_guide = pytest.mark.parametrize("name", NAMES)
every_symptom = pytest.mark.parametrize("name", SYMPTOMS)


def test_these_are_the_guides():
    assert tuple(guides()) == NAMES
    assert title("out-of-memory") == "Out of memory"


@every_symptom
def test_a_symptom_has_the_five_parts_and_fits_two_screens(name):
    text = guides()[name]
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    assert len(text.splitlines()) <= 60


@every_guide
def test_a_guide_has_no_long_lines(name):
    assert max(map(len, guides()[name].splitlines())) <= 100


def named(text):
    return re.findall(r"hotloop explain ([a-z][a-z0-9-]*)", text)


def test_every_page_that_a_message_names_exists():
    ids = {*guides(), *(technique.id for technique in techniques.ALL)}
    texts = {
        path.name: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")
    } | guides()
    for where, text in texts.items():
        assert set(named(text)) <= ids, where


@every_symptom
def test_a_message_names_the_guide(name):
    messages = (path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    assert any(f"hotloop explain {name})" in text for text in messages)


def help_of(verb, capsys):
    module = import_module(f"hotloop.cli.{verb}")
    for args in (["--help"], ["--help", "train.py"]):  # doctor's two forms
        with pytest.raises(SystemExit):
            module.run(args)
    return capsys.readouterr().out


@every_guide
def test_the_commands_of_a_guide_are_commands_with_such_options(name, capsys):
    text = guides()[name]
    shown = re.findall(r"^    hotloop ([a-z]+)\b(.*?)(?:   |$)", text, re.MULTILINE)
    shown += re.findall(r"`hotloop ([a-z]+)([^`]*)`", text)
    for verb, rest in shown:
        assert verb in VERBS
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in help_of(verb, capsys), f"{verb} {option}"


@every_guide
def test_the_names_in_a_guide_are_names(name):
    text = guides()[name]
    keys = flatten(CharLmConfig())
    for key in re.findall(r"\b(?:training|data|model|diffusion)\.[a-z_]+", text):
        assert key in keys
    for uses in re.findall(r"--with ([a-z0-9:=,-]+)", text):
        for use in uses.split(","):
            techniques.get(use.split(":")[0])
    ids = {rule.id for rule in rules.ALL} | NO_RULES
    assert set(re.findall(r"\b[A-Z]\d{1,2}\b", text)) <= ids
