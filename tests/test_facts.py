"""Each fact of a case is filled by a script that really ran: a rule that reads others is blind.

First the recorded cases of the examples are asked, then the small scripts here. What only a GPU,
a cgroup or several processes can fill is named with the file that fills it. So are the facts of a
planned run, which no script fills.
"""

import copy
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import torch
from benchmarks.diagnosed import RECORDED, recorded
from tests.observing import observed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import hotloop
from hotloop.core.case.case import Case
from hotloop.core.case.environment import Ceiling, Operator, Raised
from hotloop.core.case.experiment import Experiment
from hotloop.core.case.planned_run import MachineState, PlannedData, PlannedRun
from hotloop.observe.when_to_stop import StopLimits

SOURCE = Path(hotloop.__file__).parent
# Facts that need what is not here: the file that fills them, and what it takes.
ELSEWHERE = {
    ("Case", "operators"): "cli/doctor.py",  # hotloop doctor --profile
    ("Case", "profiled"): "cli/doctor.py",
    ("Case", "planned"): "diagnosis/planned_run.py",
    # tests/observe/ledger/test_sparse_products.py
    ("SparseFactor", "is_one_hot"): "observe/ledger/sparse_products.py",
    ("Case", "raised"): "observe/build_case.py",  # tests/diagnosis/test_script.py
    (
        "Case",
        "requested",
    ): "diagnosis/run_record.py",  # a run of hotloop train: tests/diagnosis/test_run_record.py
    ("Case", "techniques"): "diagnosis/run_record.py",
    ("Steps", "guesses"): "diagnosis/run_record.py",
    ("Case", "not_checked"): "observe/build_case.py",  # something that failed
    ("Case", "throttle_reasons"): "observe/probes/utilisation.py",  # a GPU that is slowed down
    ("Hardware", "count"): "machine/detect.py",  # several GPUs
    ("Hardware", "capability"): "machine/detect.py",  # a GPU
    ("Hardware", "smem_bytes"): "machine/detect.py",
    ("Steps", "gpu"): "observe/probes/cuda.py",
    ("Steps", "starved"): "observe/probes/cuda.py",
    ("Model", "device"): "observe/hooks/describe.py",
    ("Rewrite", "device"): "observe/ledger/attention_forms.py",
    ("ProcessFacts", "allocator"): "observe/probes/cuda.py",
    ("Loader", "pinned"): "observe/probes/batches.py",
    ("ProcessFacts", "throttled"): "observe/probes/process_state.py",  # a cgroup's quota
    (
        "ProcessFacts",
        "rank",
    ): "observe/probes/process_state.py",  # torchrun: tests/diagnosis/test_script.py
    ("Modes", "part"): "observe/probes/mode_layers.py",  # a library's model: tests/observe
    ("Modes", "part_off"): "observe/probes/mode_layers.py",
    ("Modes", "part_place"): "observe/probes/mode_layers.py",
    ("ProcessFacts", "ranked"): "observe/merge_ranks.py",
    ("ProcessFacts", "hosts"): "diagnosis/run_record.py",
    ("Measurement", "source"): "core/measurement.py",  # of published figures, in plans and pages
    ("Measurement", "where"): "core/measurement.py",
    (
        "ProcessFacts",
        "graph_breaks",
    ): "observe/probes/process_state.py",  # a compiler: tests/observe
    ("ProcessFacts", "break_reasons"): "observe/probes/process_state.py",
}


class Rows(torch.utils.data.Dataset[Any]):
    """Rows that can be read several at once."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float(index))

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return [self[index] for index in indices]


class Wasteful(nn.Module):
    """A model with a frozen trunk, a head whose output is thrown away, and one never called."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.head = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 1)
        self.dropped, self.uncalled = nn.Linear(4, 64), nn.Linear(4, 4)
        self.beside = nn.Linear(4, 64)  # its output is returned, and the loss does not read it

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.trunk(x)
        self.dropped(hidden)
        return self.head(hidden), self.beside(hidden)


def wasteful(tmp_path: Path) -> None:
    model = Wasteful()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    loader = DataLoader(Rows(), batch_size=4, num_workers=1, persistent_workers=True)
    for _ in range(2):
        for x in loader:
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(x)[0].square().mean()
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            torch.save(model.state_dict(), tmp_path / "last.pt")


def scheduled(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    data = TensorDataset(torch.randn(24, 4))
    out_of_order = DataLoader(data, batch_size=4, num_workers=1, in_order=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)  # type: ignore[attr-defined]

    def stage() -> None:
        for part in range(2):
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
            for step, (x,) in enumerate(out_of_order):
                loss = model(x).square().mean() * (float("inf") if step == 1 else 1.0)
                scaler.scale(loss).backward()
                if part:
                    scaler.unscale_(optimizer)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                scheduler.step()
            with torch.no_grad():  # in training mode, on the data that are trained
                for (x,) in DataLoader(data, batch_size=8):
                    model(x)

    stage()
    torch.optim.lr_scheduler.StepLR(optimizer, 2, last_epoch=-1)


def by_hand(tmp_path: Path) -> None:
    """Batches by a function, updates by hand, a child process, an evaluation of training rows."""
    del tmp_path
    weight = torch.zeros(4, requires_grad=True)
    rows = torch.randn(64, 4)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])

    def batch(step: int) -> torch.Tensor:
        return rows[step % 16 * 4 : step % 16 * 4 + 4]

    for step in range(24):
        (batch(step) @ weight - 1).square().mean().backward()
        with torch.no_grad():
            assert weight.grad is not None
            weight -= 0.1 * weight.grad
            weight.grad = None
    children.append(child)


def evaluated(tmp_path: Path) -> None:
    """Training rows that are evaluated on purpose, a resumed schedule, micro batches left over."""
    del tmp_path
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5)
    state = copy.deepcopy(schedule.state_dict())
    state["last_epoch"] = state["_step_count"] = 3
    schedule.load_state_dict(state)
    parts = TensorDataset(torch.randn(36, 4)), TensorDataset(torch.randn(16, 4))
    train = DataLoader(parts[0], batch_size=4, shuffle=True, pin_memory=True)
    for _ in range(3):
        model.train()
        for at, (x,) in enumerate(train, 1):
            model(x).square().mean().backward()
            if at % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
        schedule.step()
        model.eval()
        with torch.no_grad():
            for part in parts:
                for (x,) in DataLoader(part, batch_size=8):
                    model(x)


def attending(tmp_path: Path) -> None:
    """Attention that is written out, with a learned bias and dropout."""
    del tmp_path
    project, bias = nn.Linear(4, 8), nn.Embedding(6, 6)
    optimizer = torch.optim.SGD([*project.parameters(), *bias.parameters()], lr=0.1)
    rows = torch.randn(24, 2, 6, 4)
    for x in rows:
        queries = project(x)
        weights = torch.softmax(queries @ queries.mT + bias.weight, -1)
        (nn.functional.dropout(weights, 0.5) @ queries).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def resumed(tmp_path: Path) -> None:
    """A run that goes on from its checkpoint without the state of its optimizer and schedule."""

    def built() -> tuple[nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    path = tmp_path / "last.pt"
    for is_second in range(2):
        model, optimizer, schedule = built()
        epoch = 0
        if is_second:
            kept = torch.load(path)
            model.load_state_dict(kept["model"])
            epoch = kept["epoch"]
        for _ in range(4):
            for x in torch.randn(8, 4, 4):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
                time.sleep(0.02)  # a counter is looked at from time to time
            schedule.step()
            epoch += 1
        state = {"model": model, "opt": optimizer, "sched": schedule}
        torch.save({k: v.state_dict() for k, v in state.items()} | {"epoch": epoch}, path)


def windowed(tmp_path: Path) -> None:
    """Windows of a series in the order of time."""
    del tmp_path
    series = torch.linspace(0, 9, 200)
    data = TensorDataset(series.unfold(0, 8, 1)[:-1], series[8:, None])
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for _ in range(3):
        for x, y in DataLoader(data, batch_size=16):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()


class Instructions(torch.utils.data.Dataset[Any]):
    """Prompts with answers, all of which the loss takes in."""

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> dict[str, Any]:
        ids = torch.randint(1, 64, (12,))
        return {"input_ids": ids, "labels": ids.clone(), "prompt_len": 6}


def instructed(tmp_path: Path) -> None:
    """Labels that hold the prompts."""
    del tmp_path
    model = nn.Sequential(nn.Embedding(64, 8), nn.Linear(8, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(Instructions(), batch_size=4):
        optimizer.zero_grad()
        logits = model(batch["input_ids"])[:, :-1]
        nn.functional.cross_entropy(logits.mT, batch["labels"][:, 1:]).backward()
        optimizer.step()


children: list[subprocess.Popen[bytes]] = []


@cache
def filled() -> frozenset[tuple[str, str]]:
    """Return the facts that recorded cases have."""
    return frozenset(fact for path in RECORDED.glob("*.json") for fact in facts_of(recorded(path)))


def facts_of(value: Any) -> Iterator[tuple[str, str]]:
    """Yield class and field of each fact that is not what it is where nobody fills it."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            held = getattr(value, field.name)
            if held != _empty(field):
                yield type(value).__name__, field.name
            yield from facts_of(held)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from facts_of(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from facts_of(each)


def _empty(field: "Field[Any]") -> Any:
    if field.default is not MISSING:
        return field.default
    return MISSING if field.default_factory is MISSING else field.default_factory()


def types(kind: Any) -> Iterator[type]:
    """Yield the data classes that a type holds, itself among them."""
    if is_dataclass(kind) and isinstance(kind, type):
        yield kind
        # Some modules import them for their type checker alone.
        for hint in get_type_hints(
            kind, localns={"Mapping": Mapping, "Sequence": Sequence}
        ).values():
            yield from types(hint)
    for inner in get_args(kind):
        yield from types(inner)


FACTS = sorted(
    {
        (kind.__name__, field.name)
        for kind in types(Case)
        # the values of facts that are ELSEWHERE
        if kind not in (Operator, Raised, Ceiling, Experiment, *types(PlannedRun))
        for field in fields(kind)
    }
    - ELSEWHERE.keys()
)
FILES = {
    **dict.fromkeys(types(PlannedRun), "diagnosis/planned_run.py"),
    **dict.fromkeys(types(PlannedData), "diagnosis/planned_data.py"),
    MachineState: "diagnosis/machine.py",
}
BEFORE_A_RUN = [(kind, field.name) for kind in FILES for field in fields(kind)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> frozenset[tuple[str, str]]:
    """Return the facts that the scripts here fill, which run once each."""
    found: set[tuple[str, str]] = set()
    if (dynamo := sys.modules.get("torch._dynamo.utils")) is not None:
        dynamo.counters.clear()  # other tests of this process have compiled
    scripts: tuple[Callable[[Path], None], ...] = (
        wasteful,
        scheduled,
        by_hand,
        evaluated,
        attending,
        resumed,
        windowed,
        instructed,
    )
    for script in scripts:
        folder = tmp_path_factory.mktemp(script.__name__)
        limits = StopLimits(full=script is not wasteful)  # which is looked at again when it is over
        found |= set(facts_of(observed(_of(script, folder), limits=limits)))
    for child in children:
        child.kill()
        child.wait()
    return frozenset(found)


def _of(script: Callable[[Path], None], folder: Path) -> Callable[[], None]:
    def train() -> None:
        script(folder)

    return train


@pytest.mark.parametrize("fact", FACTS, ids=".".join)
@pytest.mark.filterwarnings("ignore")
def test_a_fact_is_filled_by_a_script_that_ran(
    fact: tuple[str, str], run: frozenset[tuple[str, str]]
) -> None:
    assert fact in filled() | run


@pytest.mark.parametrize("fact", ELSEWHERE, ids=".".join)
def test_what_cannot_be_filled_here_is_filled_by_the_file_that_is_named(
    fact: tuple[str, str],
) -> None:
    assert re.search(rf"\b{fact[1]}\b", (SOURCE / ELSEWHERE[fact]).read_text())
    assert fact not in filled()


@pytest.mark.parametrize("fact", BEFORE_A_RUN, ids=lambda fact: f"{fact[0].__name__}.{fact[1]}")
def test_a_fact_of_a_planned_run_is_filled_by_the_file_of_its_type(fact: tuple[type, str]) -> None:
    kind, name = fact
    other = {PlannedRun: "diagnosis/machine.py"}.get(kind, FILES[kind])
    texts = [(SOURCE / file).read_text() for file in {FILES[kind], other}]
    assert any(re.search(rf"\b{name}=", text) for text in texts)
