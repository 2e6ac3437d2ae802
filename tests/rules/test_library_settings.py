"""Remedies in the language of the library whose loop trains."""

import importlib
import pkgutil
from functools import cache

import pytest
from tests.golden import rules as golden
from tests.golden.cases import SCRIPT, healthy

from hotloop.core.finding import Finding, Remedy, SourceLocation
from hotloop.rules import ALL
from hotloop.rules.library_settings import SETTINGS, LibrarySetting, in_library

SAVED = Remedy(text="save every N steps or epochs, and once at the end", effort="code edit")
CHECKPOINTED = Remedy(
    text="call the block itself in place of checkpoint(block, x), or "
    "model.gradient_checkpointing_disable(), and look at the peak"
)


def finding(remedy: Remedy) -> Finding:
    return Finding(claim="x", severity="warn", remedies=[remedy], places=[PLACE])


PLACE = SourceLocation(file=SCRIPT, line=9)


@cache
def texts() -> frozenset[str]:
    """Return the remedies of all golden cases."""
    names = [f"{golden.__name__}.{one.name}" for one in pkgutil.iter_modules(golden.__path__)]
    modules = [importlib.import_module(name) for name in names]
    rules = {rule.label.lower().replace(" ", "_"): rule for rule in ALL}
    return frozenset(
        remedy.text
        for module in modules
        if (rule := rules.get(module.__name__.rpartition(".")[2])) is not None
        for case in module.POSITIVE
        if case.planned is None and rule.judge is not None
        for one in rule.findings(case)
        for remedy in one.remedies
    )


@pytest.mark.parametrize(
    "setting", [one for settings in SETTINGS.values() for one in settings], ids=lambda s: s.says
)
def test_a_rule_has_such_a_remedy(setting: LibrarySetting):
    assert any(setting.typed(text) is not None for text in texts())


def test_the_argument_that_the_script_passes_is_the_place():
    source = "a = 1\nargs = TrainingArguments(\n    'out',\n    save_strategy='steps',\n)\n"
    case = healthy(framework="transformers", sources={SCRIPT: source})
    (made,) = in_library(case, [finding(SAVED)])
    (remedy,) = made.remedies
    assert remedy.text == "TrainingArguments(save_strategy='epoch'), which is set here"
    assert remedy.effort == "configuration line"
    assert made.places == [SourceLocation(file=SCRIPT, line=4), PLACE]


def test_the_argument_of_the_command_line_is_named():
    arguments = ("--lr", "1", "--gradient_checkpointing", "True", "--bf16")
    case = healthy(framework="transformers", arguments=arguments)
    (made,) = in_library(case, [finding(CHECKPOINTED)])
    (remedy,) = made.remedies
    assert remedy.text == (
        "--gradient_checkpointing False on the command line, "
        "which has --gradient_checkpointing True now"
    )


def test_another_loop_and_another_remedy_stay_as_they_are():
    for framework, remedy in (("plain", SAVED), ("transformers", Remedy(text="read the page"))):
        (made,) = in_library(healthy(framework=framework), [finding(remedy)])
        assert made == finding(remedy)


def test_lightning_has_its_own_words():
    (made,) = in_library(healthy(framework="lightning"), [finding(SAVED)])
    assert made.remedies[0].text == "ModelCheckpoint(every_n_epochs=1)"
