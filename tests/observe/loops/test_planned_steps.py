"""What is said of a loop's steps when it is stopped, against what it makes when it is not."""

import pytest
from tests.golden.loop_forms import HEAD, KNOWN, UNKNOWN

from hotloop.observe import build_case


@pytest.fixture(autouse=True)
def the_script_alone(monkeypatch, tmp_path):
    """Of the modules of this process only the script is the project's: tests train as well."""
    every = build_case.sources
    monkeypatch.setattr(
        build_case,
        "sources",
        lambda first=(): {
            path: text for path, text in every(first).items() if path.startswith(str(tmp_path))
        },
    )


@pytest.mark.parametrize("form", KNOWN)
def test_a_loop_that_was_stopped_means_to_make_as_many_steps_as_it_makes(observed, form):
    whole = observed(HEAD + KNOWN[form])
    assert whole.stopped is None
    for steps in (12, 30):
        stopped = observed(HEAD + KNOWN[form], steps=steps)
        assert stopped.stopped is not None
        assert stopped.planned_steps == stopped.total_steps == whole.steps.count


@pytest.mark.parametrize("form", UNKNOWN)
def test_of_a_loop_whose_code_does_not_say_nothing_is_said(observed, form):
    for steps in (3, 30):
        case = observed(HEAD + UNKNOWN[form], steps=steps)
        assert case.stopped is not None
        assert case.planned_steps is None
        assert case.total_steps is None


@pytest.mark.parametrize("form", ["epochs loader", "every second", "skipped rows", "generator"])
def test_a_run_that_came_to_its_end_has_the_steps_that_were_counted(observed, form):
    case = observed(HEAD + {**KNOWN, **UNKNOWN}[form])
    assert case.stopped is None
    assert case.planned_steps is None
    assert case.total_steps == case.steps.count


def test_an_optimizer_that_was_not_stepped_yet_is_waited_for(observed):
    text = HEAD + KNOWN["critic five"]
    assert observed(text, steps=3).planned_steps is None  # the critic alone, five times a turn
    assert observed(text, steps=30).planned_steps == 60


STAGES = """
def stage(steps):
    for step in range(steps):
        update(X[:8])
stage(60)
stage(300)
"""


def test_what_one_function_does_twice_is_not_added_up(observed):
    assert observed(HEAD + STAGES, steps=30).planned_steps is None
    assert observed(HEAD + STAGES, steps=90).planned_steps is None


TRAINER = """
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 1)

    def forward(self, x, labels):
        return {"loss": (self.head(x)[:, 0] - labels).square().mean()}

rows = [{"x": torch.randn(4), "labels": torch.tensor(1.0)} for _ in range(64)]
chosen = TrainingArguments(
    "OUT", num_train_epochs=3, per_device_train_batch_size=4, gradient_accumulation_steps=3,
    report_to=[], disable_tqdm=True, save_strategy="no", use_cpu=True, logging_strategy="no",
)
"""
ONCE = "Trainer(Net(), chosen, train_dataset=rows).train()\n"


def test_transformers_trainer_says_how_many_steps_it_means_to_make(observed, tmp_path):
    text = TRAINER.replace("OUT", str(tmp_path / "out"))
    made = observed(text + ONCE).steps.count
    assert observed(text + ONCE, steps=4).planned_steps == made
    folds = "for fold in range(3):\n    " + ONCE
    assert observed(text + folds, steps=4).planned_steps is None
    assert observed(text + ONCE + ONCE, steps=4).planned_steps is None
