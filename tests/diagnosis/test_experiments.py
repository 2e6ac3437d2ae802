"""Experiments on a script: chosen by its ledger and findings, made without touching its files."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hotloop.core import codec
from hotloop.core.case.case import Case
from hotloop.core.case.experiment import Experiment
from hotloop.core.case.ledger import Ledger, LedgerLine, LedgerRow
from hotloop.core.case.objects import Model
from hotloop.core.case.rewrite import Rewrite
from hotloop.core.case.steps_and_loaders import BatchFacts, Frame, Loader, Steps
from hotloop.core.finding import Finding, SourceLocation
from hotloop.core.hardware import Hardware
from hotloop.diagnosis import experiments as made_in_turn
from hotloop.diagnosis.chosen_experiments import chosen
from hotloop.diagnosis.experiments import with_experiments
from hotloop.observe.experiments.new_files import entries_of
from hotloop.observe.experiments.trial import TrialRequest, TrialResult, command
from hotloop.process import child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")

SCRIPT = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(8)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.aux = torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)
    def unused(self, x):
        time.sleep(0.008)
        return self.aux(x)
    def forward(self, x):
        extra = self.unused(x)
        teacher = self.aux(x)
        return self.head(x) + teacher

def measure(loss):
    time.sleep(0.004)
    return loss.item()

model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x in DataLoader(Data(), batch_size=2):
    loss = model(x).square().mean()
    shown = measure(loss)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    open("log.txt", "a").write("x")
"""
LINES = {"unused": 20, "needed": 21, "measure": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experiments")
    (folder / "train.py").write_text(SCRIPT)
    (folder / "log.txt").write_text("old")
    return folder


def case_of(folder: Path, **facts: object) -> Case:
    return Case(
        hardware=Hardware(device="cpu", name="cpu", cores=2),
        script=str(folder / "train.py"),
        wall={"forward": 5.0, "data wait": 5.0},
        steps=Steps(count=100, how="optimizer"),
        sources={str(folder / "train.py"): SCRIPT},
        **facts,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def made(folder: Path) -> dict[str, Experiment]:
    """Make all experiments of this module in one process; return them by what they try."""
    path = str(folder / "train.py")

    def lines(name: str, row: str | None) -> Experiment:
        place = SourceLocation(file=path, line=LINES[name])
        return Experiment(name="lines", what=name, row=row, places=(place,))

    experiments = [
        Experiment(name="ready batches", what="loader", row="waiting for data"),
        lines("unused", "dead"),
        lines("needed", "dead"),
        lines("measure", "logging"),
        Experiment(name="fused optimizer", what="fused"),
    ]
    case = with_experiments(case_of(folder), experiments, ("train.py",), cwd=folder, seconds=6.0)
    assert case.not_checked == ()
    return {one.what: one for one in case.experiments}


def near(experiment: Experiment, gone: float, whole: float = 16.0) -> bool:
    """Whether the gain is that of a step from which `gone` of its milliseconds are taken."""
    assert experiment.gain is not None, experiment.why_not
    return abs(experiment.gain - whole / (whole - gone)) < 0.25 * whole / (whole - gone)


def test_batches_that_lie_ready_take_the_wait_away(made):
    assert near(made["loader"], 4.0)


def test_a_result_that_nothing_needs_is_proved_and_timed(made):
    assert near(made["unused"], 8.0)
    assert "NaN" in (made["unused"].proof or "")


def test_a_result_that_the_loss_needs_is_not_left_out(made):
    assert made["needed"].gain is None
    assert made["needed"].why_not == "its result is needed"


def test_a_line_that_only_looks_is_timed_without_it(made):
    assert near(made["measure"], 4.0)
    assert made["measure"].low is not None
    assert made["measure"].low <= (made["measure"].gain or 0) <= (made["measure"].high or 0)


ADVERSARIAL = """
import torch

maker, critic = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
of_maker = torch.optim.SGD(maker.parameters(), lr=0.01)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.01)
for _ in range(100_000):
    noise = torch.randn(4, 8)
    made = maker(noise)
    critic(made).mean().backward()
    of_critic.step()
    of_maker.zero_grad()
    again = maker(noise)
    critic(again).mean().neg().backward()
    of_maker.step()
    of_critic.zero_grad()
"""


def test_a_repeated_result_whose_own_gradient_is_needed_is_not_left_out(tmp_path: Path):
    path = tmp_path / "train.py"
    path.write_text(ADVERSARIAL)
    line = ADVERSARIAL.splitlines().index("    again = maker(noise)") + 1
    place = SourceLocation(file=str(path), line=line)
    asked = Experiment(name="lines", what="again", row="repeated", places=(place,))
    case = replace(case_of(tmp_path), sources={str(path): ADVERSARIAL})
    [one] = with_experiments(case, [asked], ("train.py",), cwd=tmp_path, seconds=3.0).experiments
    assert one.gain is None
    assert "another backward pass" in (one.why_not or "")


def test_a_data_set_may_be_a_list(tmp_path: Path):
    source = (
        "import torch\n"
        "from torch.utils.data import DataLoader\n"
        "model = torch.nn.Linear(8, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
        "for _ in range(1000):\n"
        "    for x in DataLoader([torch.randn(8)] * 4096, batch_size=256):\n"
        "        model(x).mean().backward()\n"
        "        optimizer.step()\n"
    )
    (tmp_path / "train.py").write_text(source)
    asked = [
        Experiment(name=f"ready {what}", what=what, row="waiting for data")
        for what in ("batches", "samples")
    ]
    case = with_experiments(case_of(tmp_path), asked, ("train.py",), cwd=tmp_path, seconds=2.0)
    made = {one.what: one for one in case.experiments}
    assert (made["batches"].gain or 0) > 1.2
    assert made["samples"].why_not == "the samples lie in memory"


CONVERGED = """
import time, torch

def measured(step):
    time.sleep(0.002)
    return float(step)

def drawn():
    time.sleep(0.002)

model, last = torch.nn.Linear(8, 1), -1.0
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1000):
    model(torch.randn(4, 8)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    score = measured(step)
    drawn()
    if score == last:
        break
    last = score
"""


def test_what_ends_a_script_early_takes_no_other_experiment_with_it(tmp_path: Path):
    path = tmp_path / "train.py"
    path.write_text(CONVERGED)

    def line(text: str) -> Experiment:
        place = SourceLocation(file=str(path), line=CONVERGED.splitlines().index(text) + 1)
        return Experiment(name="lines", what=text.strip(), row="logging", places=(place,))

    asked = [line("    score = measured(step)"), line("    drawn()")]
    case = replace(
        case_of(tmp_path),
        sources={str(path): CONVERGED},
        steps=Steps(count=1000, how="optimizer"),
    )
    case = with_experiments(case, asked, ("train.py",), cwd=tmp_path, seconds=3.0)
    made = {one.what: one for one in case.experiments}
    assert made["score = measured(step)"].why_not == "the script ends early under it"
    assert (made["drawn()"].gain or 0) > 1.2


SHORT = """
import time, torch

def drawn():
    time.sleep(0.03)

def noted():
    time.sleep(0.02)

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(40):
    model(torch.randn(4, 8)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    drawn()
    noted()
"""


def test_a_script_that_is_too_short_for_all_is_started_again(tmp_path: Path):
    path = tmp_path / "train.py"
    path.write_text(SHORT)

    def line(text: str) -> Experiment:
        place = SourceLocation(file=str(path), line=SHORT.splitlines().index(text) + 1)
        return Experiment(name="lines", what=text.strip(), row="logging", places=(place,))

    asked = [
        line("    drawn()"),
        line("    noted()"),
        Experiment(name="kept memory", what="kept"),
    ]
    case = replace(case_of(tmp_path), sources={str(path): SHORT})
    case = replace(case, steps=Steps(count=40, how="optimizer"))
    case = with_experiments(case, asked, ("train.py",), cwd=tmp_path, seconds=60.0)
    assert len(case.experiments) == 3
    assert [one.why_not for one in case.experiments] == [None] * 3
    gains = {one.what: one.gain or 0.0 for one in case.experiments}
    assert gains["drawn()"] > 1.5
    assert gains["noted()"] > 1.2


SHARED = """
import os, time, torch
from torch.utils.data import DataLoader, Dataset

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

def busy(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

class Data(Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, index):
        busy(0.02)
        return torch.randn(8)

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for rows in DataLoader(Data(), batch_size=1, num_workers=1, prefetch_factor=4):
    busy(0.01)
    model(rows).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    busy(0.01)
"""


def test_a_core_that_worker_processes_share_is_a_part_of_the_step(tmp_path: Path):
    path = tmp_path / "train.py"
    path.write_text(SHARED)
    place = SourceLocation(file=str(path), line=len(SHARED.splitlines()))
    asked = Experiment(name="lines", what="busy", row="logging", places=(place,))
    case = replace(case_of(tmp_path), sources={str(path): SHARED})
    case = with_experiments(case, [asked], ("train.py",), cwd=tmp_path, seconds=6.0)
    [one] = case.experiments
    # 20 ms of the step, 20 ms of its worker: half of the former is a quarter of both.
    assert 1.1 < (one.gain or 0.0) < 1.6


LAUNCHED = """
import os, time, torch
torch.distributed.init_process_group("gloo")
assert torch.distributed.get_world_size() == 1

def noted():
    time.sleep(0.01)

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(10_000):
    model(torch.randn(4, 8)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.01)
    noted()
"""


def test_what_a_launcher_starts_in_one_process_is_tried_too(tmp_path: Path):
    path = tmp_path / "train.py"
    path.write_text(LAUNCHED)
    place = SourceLocation(file=str(path), line=len(LAUNCHED.splitlines()))
    asked = Experiment(name="lines", what="noted", row="logging", places=(place,))
    case = replace(case_of(tmp_path), sources={str(path): LAUNCHED})
    launcher = ("-m", "torch.distributed.run", "--nproc_per_node", "1", str(path))
    [one] = with_experiments(case, [asked], launcher, cwd=tmp_path, seconds=2.0).experiments
    assert one.why_not is None
    assert 1.5 < (one.gain or 0.0) < 2.5


def test_blocks_that_differ_get_more_of_them_where_the_script_is_short(tmp_path, monkeypatch):
    path = tmp_path / "train.py"
    path.write_text(SHORT)
    place = SourceLocation(file=str(path), line=SHORT.splitlines().index("    drawn()") + 1)
    asked = Experiment(name="lines", what="drawn", row="logging", places=(place,))
    requests: list[TrialRequest] = []
    really = made_in_turn._tried

    def tried(request: TrialRequest, *others) -> TrialResult:
        requests.append(request)
        if len(requests) > 1:
            return really(request, *others)
        few = asked.with_gains([0.8, 1.6])
        return TrialResult(experiments=(few,), gains=((0.8, 1.6),), ended="the script ended")

    monkeypatch.setattr(made_in_turn, "_tried", tried)
    case = replace(case_of(tmp_path), sources={str(path): SHORT})
    case = replace(case, steps=Steps(count=40, how="optimizer"))
    case = with_experiments(case, [asked], ("train.py",), cwd=tmp_path, seconds=60.0)
    [one] = case.experiments
    assert requests[1].earlier == ((0.8, 1.6),)
    assert (one.low, one.why_not) == (0.8, None)
    assert one.blocks > 3
    assert (one.gain or 0.0) > 1.5


def test_what_was_measured_is_told_if_the_next_process_fails(tmp_path, monkeypatch):
    place = SourceLocation(file=str(tmp_path / "train.py"), line=4)
    settled = Experiment(name="lines", what="a", row="logging", places=(place,))
    settled = settled.with_gains([1.2] * 12)
    unsettled = Experiment(name="fused optimizer", what="b").with_gains([0.9, 1.3])
    results = [
        TrialResult(
            experiments=(settled, unsettled),
            gains=((1.2,) * 12, (0.9, 1.3)),
            ended="the script ended",
        ),
        TrialResult(why_not="timeout"),
    ]
    monkeypatch.setattr(made_in_turn, "_tried", lambda *_: results.pop(0))
    case = with_experiments(case_of(tmp_path), [settled], ("train.py",), cwd=tmp_path)
    assert {one.what for one in case.experiments} == {"a", "b"}
    assert not case.not_checked


def test_no_process_is_started_for_kept_memory_alone_where_the_time_is_over(tmp_path: Path):
    (tmp_path / "train.py").write_text(SHORT)
    place = SourceLocation(
        file=str(tmp_path / "train.py"), line=SHORT.splitlines().index("    noted()") + 1
    )
    asked = [
        Experiment(name="lines", what="noted", row="logging", places=(place,)),
        Experiment(name="kept memory", what="kept"),
    ]
    case = replace(case_of(tmp_path), steps=Steps(count=40, how="optimizer"))
    case = with_experiments(case, asked, ("train.py",), cwd=tmp_path, seconds=1.0)
    assert [one.why_not for one in case.experiments] == [None, "the script ended"]


def test_no_file_of_the_script_changes(folder, made):
    assert sorted(path.name for path in folder.iterdir()) == ["log.txt", "train.py"]
    assert (folder / "log.txt").read_text() == "old"


def test_a_script_that_raises_under_a_change_says_so(folder: Path, tmp_path: Path):
    source = (
        "import torch\n"
        "w = torch.zeros(1, requires_grad=True)\n"
        "optimizer = torch.optim.SGD([w], lr=0.1)\n"
        "for step in range(100_000):\n"
        "    number = step\n"
        "    assert number == step\n"
        "    w.sum().backward()\n"
        "    optimizer.step()\n"
    )
    (tmp_path / "train.py").write_text(source)
    place = SourceLocation(file=str(tmp_path / "train.py"), line=5)
    line = Experiment(name="lines", what="number", places=(place,))
    case = with_experiments(case_of(tmp_path), [line], ("train.py",), cwd=tmp_path, seconds=1.0)
    (experiment,) = case.experiments
    assert "AssertionError" in (experiment.why_not or "")


def test_a_process_ends_itself_before_it_is_ended_from_outside(folder: Path):
    place = SourceLocation(file=str(folder / "train.py"), line=LINES["measure"])
    request = TrialRequest(
        result=child.RESULT,
        scratch=child.SCRATCH,
        experiments=(Experiment(name="lines", what="measure", places=(place,)),),
        start=0.0,
        seconds=0.0,
    )
    outcome = child.run(
        command(request, ("train.py",)), limits=child.ProcessLimits(seconds=60), cwd=folder
    )
    result = codec.from_json(TrialResult, outcome.result)
    assert result.why_not == "its time was over"


LONG_EVALUATION = """
import time, torch
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8)))
optimizer = torch.optim.Adam(model.parameters())
for number in range(150):
    optimizer.zero_grad()
    model(torch.randn(32, 64)).square().mean().backward()
    optimizer.step()
    time.sleep(0.01)
with torch.no_grad():
    for _ in range(1000):
        time.sleep(0.1)
"""


def test_what_was_measured_before_a_long_evaluation_is_told(tmp_path: Path):
    (tmp_path / "train.py").write_text(LONG_EVALUATION)
    request = TrialRequest(
        result=child.RESULT,
        scratch=child.SCRATCH,
        experiments=(Experiment(name="fused optimizer", what="in one call"),),
        start=0.1,
        seconds=3.0,
    )
    limits = child.ProcessLimits(seconds=60)
    outcome = child.run(command(request, ("train.py",)), limits=limits, cwd=tmp_path)
    result = codec.from_json(TrialResult, outcome.result)
    assert result.experiments[0].gain is not None


def test_what_raises_takes_no_other_experiment_with_it(tmp_path: Path):
    source = (
        "import torch\n"
        "w = torch.zeros(1, requires_grad=True)\n"
        "optimizer = torch.optim.SGD([w], lr=0.1)\n"
        "for step in range(100_000):\n"
        "    spare = torch.ones(1) + step\n"
        "    assert step < 3 or float(spare) == step + 1\n"
        "    numbers = sum(range(20_000))\n"
        "    w.sum().backward()\n"
        "    optimizer.step()\n"
    )
    (tmp_path / "train.py").write_text(source)
    places = [SourceLocation(file=str(tmp_path / "train.py"), line=line) for line in (5, 7)]
    experiments = [
        Experiment(name="lines", what="without it", row="dead", places=(places[0],)),
        Experiment(name="lines", what="without it", places=(places[1],)),
    ]
    case = with_experiments(
        case_of(tmp_path), experiments, ("train.py",), cwd=tmp_path, seconds=1.0
    )
    spare, numbers = case.experiments
    assert spare.places == (places[0],)
    assert "AssertionError" in (spare.why_not or "")
    assert numbers.places == (places[1],)
    assert (numbers.gain or 0) > 1.2
    assert not case.not_checked


def test_a_long_start_is_not_made_twice(folder: Path):
    case = replace(case_of(folder), wall={"start": 100.0, "forward": 10.0})
    line = Experiment(name="fused optimizer", what="")
    case = with_experiments(case, [line], ("train.py",), cwd=folder, seconds=1.0)
    assert case.experiments == ()
    assert "1:40 until its first step" in case.not_checked[0]


PAIRS = Rewrite(
    kind="contraction",
    form="squared",
    shapes=((1, 128, 64), (128, 1, 64)),
    needs_grad=(True, True),
    dtypes=("float32",),
    reduced=(2,),
    places=(SourceLocation(file="/p/train.py", line=7),),
    calls=1.0,
    seconds=0.004,
    share=0.9,
)


def test_another_form_is_timed_between_the_steps_of_the_script(tmp_path: Path):
    source = (
        "import torch\n"
        "torch.manual_seed(0)\n"
        "w = torch.randn(128, 64, requires_grad=True)\n"
        "optimizer = torch.optim.SGD([w], lr=1e-6)\n"
        "for step in range(100_000):\n"
        "    difference = w[None] - w[:, None]\n"
        "    difference.square().sum(2).mean().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
    )
    (tmp_path / "train.py").write_text(source)
    tried = Experiment(name="contraction", what="", rewrites=(PAIRS,))
    line = Experiment(name="fused optimizer", what="")
    case = with_experiments(
        case_of(tmp_path), [tried, line], ("train.py",), cwd=tmp_path, seconds=3.0
    )
    experiment, _ = case.experiments
    assert experiment.gain is not None, experiment.why_not
    assert 0 < experiment.low <= experiment.gain <= experiment.high
    assert (experiment.places, experiment.rewrites) == (PAIRS.places, (PAIRS,))
    assert experiment.steps > 0


# Which experiments are chosen.


def frame(line: int, *, own: bool = True) -> Frame:
    return Frame(file="/p/train.py", line=line, function=f"f{line}", own=own)


def row(name: str, seconds: float, *chains: tuple[int, ...]) -> LedgerRow:
    lines = tuple(
        LedgerLine(what="mm", seconds=seconds / len(chains), calls=tuple(map(frame, chain)))
        for chain in chains
    )
    return LedgerRow(name=name, seconds=seconds, avoidable=name != "useful", lines=lines)


def chosen_lines(*rows: LedgerRow) -> list[list[int | None]]:
    case = replace(case_of(Path("/p")), ledger=Ledger(rows=rows))
    return [[place.line for place in one.places] for one in chosen(case) if one.name == "lines"]


def test_the_outermost_line_that_is_spent_on_the_row_is_skipped():
    wasted = row("frozen", 4.0, (10, 20, 99))
    assert chosen_lines(wasted, row("useful", 6.0, (11, 99))) == [[20]]


def test_what_a_line_does_in_an_evaluation_says_nothing_about_it():
    wasted, whole = row("repeated", 4.0, (10, 20, 99)), row("useful", 6.0, (11, 99))
    chosen_now = chosen_lines(wasted, whole, row("evaluating", 5.0, (10, 20, 98)))
    assert [20] in chosen_now


def test_of_a_dead_row_all_lines_of_the_chain_are_tried():
    wasted = row("dead", 4.0, (10, 20, 99))
    assert chosen_lines(wasted, row("useful", 6.0, (11, 99))) == [[10, 20, 99]]


def test_small_rows_are_not_tried():
    assert chosen_lines(row("dead", 0.2, (10, 99)), row("useful", 9.8, (11, 99))) == []


def test_a_loader_is_replayed_and_other_batches_are_kept_by_line():
    waiting = row("waiting for data", 5.0, (30, 99))
    ledger = Ledger(rows=(waiting, row("useful", 5.0, (11, 99))))
    by_hand = replace(case_of(Path("/p")), ledger=ledger)
    loader = Loader(key=0, role="train", batch_size=2, workers=0, dataset="Data", sampler="")
    assert [one.name for one in chosen(by_hand)] == ["lines"]
    by_loader = [one.name for one in chosen(replace(by_hand, loaders=(loader,)))]
    assert by_loader == ["ready batches", "ready samples", "worker process"]
    random = replace(loader, uses_random=True)
    by_random = [one.name for one in chosen(replace(by_hand, loaders=(random,)))]
    assert by_random == ["ready batches", "worker process"]
    workers = replace(loader, workers=1)
    by_workers = [one.name for one in chosen(replace(by_hand, loaders=(workers,)))]
    assert by_workers == ["ready batches", "no workers"]


@pytest.mark.parametrize(("batches", "kept"), [(2, 0.6875), (8, 0.5), (None, 0.5)])
def test_rows_are_sorted_into_as_many_batches_as_an_epoch_has(batches, kept):
    """Eight sampled batches of two rows; an epoch of two batches was sampled four times."""
    rows = BatchFacts(
        loader=0,
        sampled=8,
        widths=(16,) * 8,
        rows=(2,) * 8,
        lengths=(2, 16, 4, 16, 6, 16, 8, 16, 2, 4, 6, 8, 2, 4, 6, 8),
        padding=0.5,
    )
    loader = Loader(
        key=0, role="train", batch_size=2, workers=0, dataset="Data", sampler="", batches=batches
    )
    case = replace(case_of(Path("/p")), loaders=(loader,), batches=(rows,))
    (cut,) = (one for one in chosen(case) if one.name == "cut rows")
    assert cut.fraction == pytest.approx(kept)


def test_another_layout_waits_where_convolutions_take_little():
    def order(*rows: LedgerRow) -> list[str]:
        case = replace(
            case_of(Path("/p")),
            wall={"forward": 3.0, "backward": 5.0, "optimizer": 2.0},
            ledger=Ledger(rows=rows),
            models=(Model(name="M", convolutions=1, channels_last=False),),
        )
        return [one.name for one in chosen(case)]

    def useful(operator: str, seconds: float) -> LedgerRow:
        return LedgerRow(
            name="useful", seconds=8.0, lines=(LedgerLine(what=operator, seconds=seconds),)
        )

    most, least = ["channels last", "fused optimizer"], ["fused optimizer", "channels last"]
    assert order() == most  # operators were not recorded: half of both passes may be saved
    assert order(useful("convolution_backward", 5.0)) == most
    assert order(useful("convolution_backward", 1.0)) == least
    assert order(useful("mm", 8.0)) == least


def test_the_line_of_a_finding_is_tried_unless_its_row_is():
    place = SourceLocation(file="/p/train.py", line=20)
    finding = Finding(rule="H19 hot_line", claim="hot", severity="warn", places=[place])
    case = replace(case_of(Path("/p")), sources={"/p/train.py": ""})
    assert [one.places for one in chosen(case, [finding])] == [(place,)]
    tried = replace(case, ledger=Ledger(rows=(row("logging", 5.0, (20, 99)),)))
    assert [one.row for one in chosen(tried, [finding])] == ["logging"]


def test_another_form_is_tried_where_it_takes_a_part_of_the_step():
    def rewritten(*rewrites: Rewrite) -> list[tuple[str, str, int]]:
        case = replace(
            case_of(Path("/p")),
            ledger=Ledger(rows=(), rewrites=rewrites),
            steps=Steps(count=100, wall=(0.01,) * 100),
        )
        return [(one.name, one.what, len(one.rewrites)) for one in chosen(case)]

    gates = replace(PAIRS, kind="one product", form="lstm")
    product = "with a matrix product in place of the broadcast and the sum"
    assert rewritten(PAIRS, replace(PAIRS, form="norm"), gates) == [
        ("contraction", product, 2),
        ("one product", "with nn.LSTM in place of the loop over time", 1),
    ]
    silu = replace(PAIRS, kind="composed function", form="F.silu(x)")
    assert rewritten(silu) == [
        ("composed function", "with F.silu(x) in place of several operators", 1),
    ]
    assert rewritten(replace(PAIRS, seconds=0.0001)) == []


def test_the_lines_of_another_form_are_not_left_out_too():
    case = replace(
        case_of(Path("/p")),
        ledger=Ledger(rows=(), rewrites=(PAIRS,)),
        steps=Steps(count=100, wall=(0.01,) * 100),
        sources={"/p/train.py": ""},
    )
    hot = Finding(rule="H19 hot_line", claim="", severity="warn", places=PAIRS.places)
    assert [one.name for one in chosen(case, [hot])] == ["contraction"]


def test_a_script_does_not_find_what_it_made_before(tmp_path: Path):
    source = (
        "import os, torch\n"
        "assert not os.path.exists('cache/rows') and os.path.exists('data.txt')\n"
        "os.makedirs('cache')\n"
        "open('cache/rows', 'w').close()\n"
        "w = torch.zeros(1, requires_grad=True)\n"
        "optimizer = torch.optim.SGD([w], lr=0.1)\n"
        "for step in range(100_000):\n"
        "    print(step)\n"
        "    w.sum().backward()\n"
        "    optimizer.step()\n"
    )
    (tmp_path / "train.py").write_text(source)
    (tmp_path / "data.txt").write_text("1")
    before = entries_of(tmp_path)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "rows").write_text("kept")
    logging = Experiment(name="no logging", what="x")
    case = with_experiments(
        case_of(tmp_path), [logging], ("train.py",), cwd=tmp_path, seconds=0.5, before=before
    )
    (experiment,) = case.experiments
    assert experiment.gain is not None
    assert (tmp_path / "cache" / "rows").read_text() == "kept"
