"""Checkpoints that a script goes on from: what of their state a run has lost."""

import pytest

pytestmark = pytest.mark.filterwarnings("ignore:.*lr_scheduler.step:UserWarning")

TRAIN = """
import time
import torch
from torch import nn

def built(width=1):
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, width))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

class Run:
    def __init__(self, *parts):
        self.model, self.optimizer, self.schedule = parts
        self.epoch = 0

    def train(self, until):
        while self.epoch < until:
            for step in range(8):
                self.optimizer.zero_grad()
                self.model(torch.randn(4, 8)).square().mean().backward()
                self.optimizer.step()
                time.sleep({pause})
            self.schedule.step()
            self.epoch += 1

first = Run(*built())
first.train(4)
torch.save({{"model": first.model.state_dict(), "opt": first.optimizer.state_dict(),
            "sched": first.schedule.state_dict(), "epoch": first.epoch}}, "{path}")
kept = torch.load("{path}")
run = Run(*built())
run.model.load_state_dict(kept["model"])
{resume}
run.train(run.epoch + 5)
"""
EPOCH = "run.epoch = kept['epoch']"
OPTIMIZER = "run.optimizer.load_state_dict(kept['opt'])"
SCHEDULE = "run.schedule.load_state_dict(kept['sched'])"


@pytest.fixture
def resumed(observed, tmp_path):
    """A function: the lines that resume -> what was lost, and the counter that goes on."""

    def resume(*lines, change=("", "")):
        text = TRAIN.format(resume="\n".join(lines), path=tmp_path / "last.pt", pause=0.02)
        return [(r.lost, r.counter) for r in observed(text.replace(*change), full=True).resumes]

    return resume


@pytest.mark.parametrize(
    ("lines", "lost"),
    [
        ([EPOCH], ("optimizer", "schedule")),
        ([EPOCH, SCHEDULE], ("optimizer",)),
        # Loaded through a dict of their own, as it is done for DDP and compiled models.
        (["run.model.load_state_dict({k: v for k, v in kept['model'].items()})", EPOCH], None),
    ],
)
def test_a_run_goes_on_without_the_state_that_the_file_holds(resumed, lines, lost):
    assert resumed(*lines) == [(lost or ("optimizer", "schedule"), "epoch")]


@pytest.mark.parametrize(
    "lines",
    [
        [EPOCH, OPTIMIZER, SCHEDULE],
        # Other settings, other weights, part of the weights.
        [EPOCH, "run.optimizer.param_groups[0]['weight_decay'] = 0.1"],
        [EPOCH, "run.optimizer.param_groups[0]['initial_lr'] = 0.01"],
        [EPOCH, "run.optimizer = torch.optim.Adam(run.model.parameters())"],
        [EPOCH, "run.model.load_state_dict(built()[0].state_dict())"],
        [
            "run = Run(*built(2)); part = {k: v for k, v in kept['model'].items() if k[0] == '0'}",
            "run.model.load_state_dict(part, strict=False)",
            EPOCH,
        ],
        # The best weights go back into the model that goes on: nothing begins anew.
        ["run = first", "run.model.load_state_dict(kept['model'])", EPOCH],
    ],
)
def test_what_has_lost_nothing_or_begins_another_run_is_none(resumed, lines):
    assert resumed(*lines) == []


@pytest.mark.parametrize("lines", [[], ["from_epoch = kept['epoch']"]])
def test_a_warm_start_counts_from_zero(resumed, lines):
    assert [counter for _, counter in resumed(*lines)] == [None]


def test_a_restart_within_the_run_takes_no_counter_from_the_file(resumed):
    lines = ["run = first", "run.model, run.optimizer, run.schedule = built()"]
    assert resumed(*lines, "run.model.load_state_dict(kept['model'])") == [
        (("optimizer", "schedule"), None)
    ]


RESTART = """
import time
import torch
from torch import nn

def update(model, optimizer):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    time.sleep(0.02)

model = nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(9):
    if epoch == 4:
        model.load_state_dict(torch.load("{path}")["model"])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(8):
        update(model, optimizer)
    state = {{"model": model.state_dict(), "opt": optimizer.state_dict(), "epoch": epoch}}
    torch.save(state, "{path}")
"""


def test_an_epoch_that_was_counted_all_along_goes_on_from_no_file(observed, tmp_path):
    case = observed(RESTART.format(path=tmp_path / "last.pt"), full=True)
    assert [(r.lost, r.counter) for r in case.resumes] == [(("optimizer",), None)]


def test_an_optimizer_without_state_loses_none(resumed):
    assert resumed(EPOCH, change=(", momentum=0.9", "")) == []


def test_a_schedule_that_was_moved_on_is_not_lost(resumed):
    moved = "for _ in range(4): run.schedule.step()"
    assert resumed(EPOCH, moved) == [(("optimizer",), "epoch")]
