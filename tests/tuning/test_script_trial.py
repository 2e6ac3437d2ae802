"""Scripts in trials: what is counted, what is kept of their numbers, how they end."""

import os
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
from tests.forked import ROOT, Forks

from hotloop.core.agreement import Evidence, Promise, agree
from hotloop.core.plan import Plan
from hotloop.tuning import script_trial
from hotloop.tuning.moves import promise
from hotloop.tuning.trial_process import TrialEnded, TrialProcess, TrialReport

PLAIN = Plan(micro_batch=1)
HEAD = """
import random
import torch
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
"""
# It seeds nothing: Python, torch and the weights are other ones in each process.
STEP = """
    x = torch.randn(32, 8) * random.random()
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
UNSEEDED = f"{HEAD}while True:{STEP}"
CLOSURE = f"""{HEAD}
while True:
    x = torch.randn(32, 8) * random.random()
    def closure():
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        return loss
    HOW
"""


@pytest.fixture(scope="module")
def forks():
    with Forks(script_trial.__name__) as running:
        yield running


@pytest.fixture(scope="module")
def trial(forks, tmp_path_factory):
    """What a trial of a script says of its first step and of so many more."""

    def run(script: str, plan: Plan = PLAIN, *, steps: int = 11, nudge=None) -> list[TrialReport]:
        folder = tmp_path_factory.mktemp("script")
        (folder / "train.py").write_text(textwrap.dedent(script))
        command = script_trial.command(0, plan, ("train.py",), nudge=nudge)
        started = forks.start(command, cwd=folder, module=script_trial.__name__)
        with started as live:
            return [live.first(seconds=60), live.block(steps, seconds=60)]

    return run


@pytest.fixture(scope="module")
def plain(trial) -> Evidence:
    return evidence(trial(UNSEEDED))


def evidence(reports: list[TrialReport]) -> Evidence:
    said = {}
    for report in reports:
        said |= report.more["evidence"]
    return Evidence(**said)


OWN_GENERATOR = f"""{HEAD}
import numpy
draws = numpy.random.default_rng()
while True:
    x = torch.randn(32, 8) * draws.random()
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_generator_of_numpy_that_has_no_seed_is_the_same_in_all_trials(trial):
    one, two = (evidence(trial(OWN_GENERATOR)) for _ in range(2))
    assert one.losses == two.losses


@pytest.mark.parametrize("how", [UNSEEDED, CLOSURE.replace("HOW", "optimizer.step(closure)")])
def test_a_nudge_changes_the_first_weights(trial, how):
    plain, nudged = evidence(trial(how)), evidence(trial(how, nudge=(1e-3, 0)))
    assert nudged.losses[0] == pytest.approx(plain.losses[0], rel=1e-2)
    assert nudged.samples != plain.samples
    far = [abs(a - b) / b for a, b in zip(nudged.losses, plain.losses, strict=True)]
    assert 0 < max(far) < 1e-2
    assert nudged.late != plain.late


LOADS = f"""{HEAD}
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(4000, 8))
while True:
    for x, in DataLoader(data, batch_size=32, shuffle=True, num_workers=1):
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean() * random.random()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


TRAINER = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import torch
from tests.golden.accumulating import IDS, trainer_of

class Ignoring(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = torch.nn.Embedding(IDS, 8), torch.nn.Linear(8, IDS)
    def forward(self, input_ids, labels, **more):
        x = self.out(self.table(input_ids))
        return {{"loss": torch.nn.functional.cross_entropy(x.transpose(1, 2), labels)}}

trainer_of(max_steps=30, **MORE).train()
"""
LARGER = PLAIN.plus("micro-batch", factor="x4")


@pytest.mark.parametrize(
    ("more", "kept", "says"),
    [
        ("{}", True, "8 losses within"),
        ("{'model': Ignoring()}", False, "a ratio of 4 is a sum taken for a mean"),
    ],
)
def test_steps_of_larger_micro_batches_are_compared_with_the_same_steps(trial, more, kept, says):
    pytest.importorskip("transformers")
    script = TRAINER.replace("**MORE", f"**{more}")
    plain, larger = trial(script), trial(script, LARGER)
    word, how = larger[-1].more["effects"]["micro-batch"]
    assert (word, how) == (
        "in effect", "an optimizer step has 2 micro batches of 8 rows (8 of 2 before)",
    )  # fmt: skip
    base, other = evidence(plain), evidence(larger)
    assert (list(base.passes), list(other.passes)) == ([8] * 8, [2] * 8)
    found = agree(base, other, promise(LARGER, PLAIN))
    assert found.kept is kept
    assert says in found.why


def is_asleep(process: psutil.Process) -> bool:
    """A signal takes its time on a busy machine."""
    deadline = time.monotonic() + 10
    while process.status() != psutil.STATUS_STOPPED and time.monotonic() < deadline:
        time.sleep(0.01)
    return process.status() == psutil.STATUS_STOPPED


def test_an_unseeded_script_computes_the_same_each_time_and_its_workers_sleep_between_blocks(
    trial, tmp_path
):
    """In a process of its own, limits and all; the second time in a fork."""
    (tmp_path / "train.py").write_text(LOADS)
    with live(tmp_path) as started:
        first = started.first(seconds=60)
        below = [p for p in psutil.Process().children(recursive=True) if _is_trial(p)]
        assert len(below) >= 2  # the script and its worker
        assert all(is_asleep(process) for process in below)
        alone = evidence([first, started.block(11, seconds=60)])
    left = {process.pid for process in psutil.Process().children(recursive=True)}
    assert not left & {process.pid for process in below}
    found = agree(alone, evidence(trial(LOADS)), Promise())
    assert (found.kept, found.why) == (True, "12 losses equal bit for bit")
    assert len(alone.norms) == 8
    assert len(alone.tensors) == 4


def _is_trial(process: psutil.Process) -> bool:
    try:
        return "hotloop.tuning.script_trial" in " ".join(process.cmdline())
    except psutil.Error:  # an earlier test's process that has ended meanwhile
        return False


def live(folder: Path) -> TrialProcess:
    return TrialProcess(
        lambda channel: script_trial.command(channel, PLAIN, ("train.py",)), cwd=folder
    )


def test_a_technique_is_put_in_and_told_and_keeps_its_promise(plain, trial):
    reports = trial(UNSEEDED, PLAIN.plus("fused-adamw").plus("threads", count=1))
    effects = reports[-1].more["effects"]
    assert effects["fused-adamw"] == ["in effect", "fused=True in 1 of 1 parameter groups"]
    assert effects["threads"] == ["not needed here", "torch uses the right count already"]
    found = agree(plain, evidence(reports), Promise(tolerance=3e-6, cosine=1 - 1e-10))
    assert found.kept, found.why


@pytest.mark.parametrize("how", ["optimizer.step(closure)", "optimizer.step(closure=closure)"])
def test_gradients_that_come_while_the_optimizer_steps_are_seen(trial, plain, how):
    found = agree(plain, evidence(trial(CLOSURE.replace("HOW", how))), Promise())
    assert found.kept, found.why


def test_steps_of_several_forward_passes_keep_each_loss(trial):
    accumulates = f"{HEAD}\nimport itertools\nfor n in itertools.count(1):" + STEP.replace(
        "optimizer.zero_grad()", "loss = loss / 2"
    ).replace("optimizer.step()", "if n % 2 == 0:\n        optimizer.step()")
    accumulates = accumulates.replace(".step()", ".step(); optimizer.zero_grad()")
    found = evidence(trial(accumulates))
    assert (len(found.losses), len(found.norms)) == (16, 8)


def test_of_two_networks_that_take_turns_the_second_ends_the_step(trial):
    gan = """
        import torch
        maker, judge = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
        for_maker = torch.optim.AdamW(maker.parameters())
        for_judge = torch.optim.AdamW(judge.parameters())
        while True:
            loss = judge(maker(torch.randn(8, 4)).detach()).mean()
            for_judge.zero_grad(); loss.backward(); for_judge.step()
            loss = -judge(maker(torch.randn(8, 4))).mean()
            for_maker.zero_grad(); loss.backward(); for_maker.step()
    """
    first, block = trial(gan, steps=10)
    late = block.more["evidence"]["late"]
    found = evidence([first, block])
    assert len(found.norms) == 8
    assert len(found.losses) + len(late) == 20  # two a step, but for the first two


def test_epochs_are_counted_by_the_loader_that_was_started_most(trial):
    loader = """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        data = TensorDataset(torch.randn(12, 8), torch.randn(12, 1))
        net = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        loader, test = (DataLoader(data, batch_size=4, shuffle=True) for _ in range(2))
        while True:
            for x, y in loader:
                loss = (net(x) - y).square().mean()
                optimizer.zero_grad(); loss.backward(); optimizer.step()
            with torch.no_grad():
                for x, y in test: net(x)
                for x, y in test: net(x)
    """
    first, block = trial(loader, steps=9)
    assert (first.more["epochs"], block.more["epochs"]) == (1, 4)


ENDS = [
    (f"{HEAD}for _ in range(3):{STEP}", "over", "the script ended", 3),
    (f"import sys\n{HEAD}for _ in range(3):{STEP}\nsys.exit(0)", "over", "the script ended", 3),
    (
        f"import sys\n{HEAD}for _ in range(3):{STEP}\nsys.exit(3)",
        "failed",
        "the script ended with SystemExit(3)",
        3,
    ),
    ("1 / 0", "failed", "the script ended with ZeroDivisionError('division by zero')", 0),
    (
        "import torch\nw = torch.ones(2, requires_grad=True)\nwhile True: w.sum().backward()",
        "over",
        "no optimizer of torch was stepped",
        0,
    ),
]


@pytest.mark.parametrize(("script", "outcome", "why", "steps"), ENDS)
def test_how_a_script_ends_is_told(trial, script, outcome, why, steps):
    with pytest.raises(TrialEnded) as ended:
        trial(script)
    assert (ended.value.outcome, ended.value.reason, ended.value.at) == (outcome, why, steps)


def test_a_script_that_prints_a_lot_goes_on(trial):
    chatty = UNSEEDED.replace("    x =", "    print('x' * 100_000)\n    x =")
    assert trial(chatty)[-1].made == 11


def test_steps_that_a_fused_optimizer_leaves_out_are_no_evidence(trial):
    """As GradScaler has it do: it tells of an overflow, and the update is not made."""
    scaled = UNSEEDED.replace(
        "AdamW(net.parameters()", "AdamW(net.parameters(), fused=True"
    ).replace(
        "    optimizer.step()",
        "    over = made == 1\n    made += 1\n"
        "    if over: [p.grad.fill_(float('inf')) for p in net.parameters()]\n"
        "    optimizer.grad_scale = torch.ones(())\n"
        "    optimizer.found_inf = torch.tensor(float(over))\n"
        "    optimizer.step()",
    )
    found = evidence(trial(scaled.replace("while True", "made = 0\nwhile True")))
    assert len(found.norms) == 8
    assert max(found.norms) < 1e6


def test_another_module_can_bring_other_techniques(tmp_path):
    """The seam by which a test plants a technique."""
    (tmp_path / "train.py").write_text("print('no step')")
    wrong = PLAIN.plus("gradients-turned")
    started = TrialProcess(
        lambda channel: script_trial.command(
            channel, wrong, ("train.py",), module="tests.golden.wrong"
        ),
        cwd=tmp_path,
        environment={"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )
    with started, pytest.raises(TrialEnded, match="over: the script ended after 0 steps"):
        started.first(seconds=60)
