"""Loops as people write them, each observed in this process."""

import io
import threading

import pytest
import torch
from tests.observing import observed
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from hotloop.core.case.case import IN_STEP
from hotloop.core.case.steps_and_loaders import ROWS
from hotloop.observe.hooks.listener import Probe
from hotloop.observe.observer import LEARNED, ScriptObserver
from hotloop.observe.probes.batches import BatchProbe
from hotloop.observe.probes.habits import Habits
from hotloop.observe.probes.models import Models
from hotloop.observe.probes.process_group import ProcessGroupProbe
from hotloop.observe.when_to_stop import StopLimits

X, Y = torch.arange(48.0).reshape(24, 2) / 48, torch.ones(24, 1)
DATA = TensorDataset(X, Y)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (model(x) - y).square().mean()


def plain(model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader) -> None:
    for x, y in loader:
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()


def epochs(count: int, **options: object) -> None:
    model, loader = net(), DataLoader(DATA, batch_size=4, **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(count):
        plain(model, optimizer, loader)


def test_transforms_of_samples_leave_the_model_to_be_looked_at():
    class Pictures(torch.utils.data.Dataset):
        shrink = nn.AvgPool2d(2)

        def __len__(self):
            return 96

        def __getitem__(self, index):
            return self.shrink(torch.ones(1, 8, 8)), 0

    def train() -> None:
        model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in DataLoader(Pictures(), batch_size=32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    case = observed(train)
    model = next(one for one in case.models if one.parameters)
    assert (model.convolutions, model.forward_modes) == (1, {"train grad": 3})


def test_a_plain_loop_with_evaluation():
    def train() -> None:
        model = net()
        loader = DataLoader(DATA, batch_size=4, shuffle=True)
        held_out = DataLoader(DATA, batch_size=12)
        unused = DataLoader(DATA)
        optimizer = torch.optim.AdamW(model.parameters())
        rates = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for _ in range(3):
            plain(model, optimizer, loader)
            rates.step()
            model.eval()
            with torch.no_grad():
                for x, _ in held_out:
                    model(x)
            model.train()
        assert len(unused) == 24

    case = observed(train)
    assert (case.steps.count, case.steps.how, case.steps.optimizers) == (18, "optimizer", 1)
    assert (case.steps.backwards, case.epochs) == (1, 3)
    assert case.steps.numbers == tuple(range(2, 17)), "17 and 18 were recorded for the ledger"
    assert len(case.steps.wall) == 15
    assert [(loader.role, loader.iterations) for loader in case.loaders] == [
        ("train", 3),
        ("evaluate", 3),
        ("unused", 0),
    ]
    assert [len(loader.waits) for loader in case.loaders] == [18, 6, 0], "one for each batch"
    assert [len(loader.first_waits) for loader in case.loaders] == [3, 3, 0]
    assert [len(loader.last_waits) for loader in case.loaders] == [3, 3, 0]
    lines = [loader.place.line - train.__code__.co_firstlineno for loader in case.loaders]
    assert lines == [2, 3, 4]
    assert [(e.step, e.batches, e.loader) for e in case.evaluations] == [
        (6, 2, 1),
        (12, 2, 1),
        (18, 2, 1),
    ]
    assert not any(e.with_grad or e.training_mode for e in case.evaluations)
    (model,), (optimizer,), (rates,) = case.models, case.optimizers, case.schedulers
    assert (model.name, model.role, model.parameters) == ("Sequential", "train", 17)
    assert (optimizer.name, optimizer.steps) == ("AdamW", 18)
    assert rates.name == "StepLR"
    assert rates.steps >= 1
    assert rates.optimizer_steps // 6 - rates.steps in {0, 1}, "as of when it was last alive"
    assert len(case.steps.losses) >= LEARNED
    assert case.steps.losses[0][0] == 1
    assert case.framework == "plain"
    assert case.arguments == ("--x",)
    assert __file__ in case.sources
    assert case.not_checked == ()


def test_every_second_has_a_row_and_every_row_a_name():
    hosts: list[ScriptObserver] = []
    case = observed(lambda: epochs(8), prepare=hosts.append)
    first, *_, last = hosts[0].events.read()
    watched = (last[0] - first[0]) / 1e9
    assert case.seconds < watched < case.seconds + case.own_time
    assert set(case.wall) <= set(ROWS)
    assert set(case.steps.rows) == {*IN_STEP} - {"exchange"}, "it is seen in stacks alone"


def test_accumulation_is_the_backward_passes_of_a_step():
    def train() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for index, (x, y) in enumerate(DataLoader(DATA, batch_size=2)):
            (loss_of(model, x, y) / 3).backward()
            if index % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()

    case = observed(train)
    assert (case.steps.count, case.steps.backwards) == (4, 3)
    assert len(case.loaders[0].waits) == 12


def test_a_scaler_that_skips_a_step_makes_one_less():
    def train() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for index, (x, y) in enumerate(DataLoader(DATA, batch_size=4)):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = loss_of(model, x, y)
            scaler.scale(loss * (float("inf") if index == 2 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()

    case = observed(train)
    assert case.steps.count == 5
    assert sum(scaler.enabled for scaler in case.scalers) == 1
    assert case.steps.nonfinite is not None


def test_a_closure_belongs_to_the_step_that_calls_it():
    def train() -> None:
        model = net()
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, X, Y)
            loss.backward()
            return loss

        for _ in range(5):
            optimizer.step(closure)

    case = observed(train)
    assert (case.steps.count, case.optimizers[0].name) == (5, "LBFGS")
    assert case.steps.backwards > 1
    assert case.row("backward") > 0
    assert case.evaluations == ()


def test_weights_moved_by_hand_step_at_each_backward_pass():
    def train() -> None:
        model = net()
        for x, y in DataLoader(DATA, batch_size=4):
            found = torch.autograd.grad(loss_of(model, x, y), list(model.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(model.parameters(), found, strict=True):
                    parameter -= 0.1 * gradient

    case = observed(train)
    assert (case.steps.count, case.steps.how) == (6, "backward")
    assert [model.role for model in case.models] == ["train"]
    assert observed(train, limits=StopLimits(steps=4)).steps.count == 4
    assert case.loaders[0].role == "train"
    assert case.evaluations == ()


def test_two_optimizers_make_one_step():
    def train() -> None:
        critic, maker = nn.Linear(2, 1), nn.Linear(3, 2)
        first = torch.optim.Adam(critic.parameters())
        second = torch.optim.Adam(maker.parameters())
        for x, _ in DataLoader(DATA, batch_size=4):
            first.zero_grad()
            made = maker(torch.randn(4, 3))
            critic(x).mean().backward()
            critic(made.detach()).mean().backward()
            first.step()
            second.zero_grad()
            critic(made).mean().backward()
            second.step()

    case = observed(train)
    assert (case.steps.count, case.steps.optimizers, case.steps.backwards) == (6, 2, 3)
    assert [optimizer.steps for optimizer in case.optimizers] == [6, 6]
    assert {(model.parameters, model.role) for model in case.models} == {(3, "train"), (8, "train")}
    assert case.loaders[0].role == "train"


def test_batches_made_by_hand_need_no_loader():
    def train() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(10):
            if step % 5 == 0:
                model.eval()
                with torch.no_grad():
                    for _ in range(3):
                        loss_of(model, X, Y).item()
                model.train()
            at = torch.randint(20, (4,))
            loss = loss_of(model, X[at], Y[at])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    case = observed(train)
    assert (case.steps.count, len(case.evaluations)) == (10, 2)
    assert [(e.step, e.batches) for e in case.evaluations] == [(0, 3), (5, 3)]


def test_a_frozen_teacher_is_no_evaluation():
    def train() -> None:
        model, teacher = net(), nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, _ in DataLoader(DATA, batch_size=4):
            with torch.no_grad():
                wanted = teacher(x)
            loss_of(model, x, wanted).backward()
            optimizer.step()

    case = observed(train)
    assert (case.steps.count, case.evaluations) == (6, ())
    assert case.row("evaluate") == 0


@pytest.mark.parametrize("training_mode", [False, True])
def test_an_evaluation_that_records_gradients_is_one_all_the_same(training_mode):
    def train() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(DATA, batch_size=4)
        held_out = DataLoader(DATA, batch_size=4)
        for _ in range(2):
            plain(model, optimizer, loader)
            model.train(training_mode)
            for x, _ in held_out:
                model(x)
            model.train()

    case = observed(train)
    assert case.steps.count == 12
    assert [loader.role for loader in case.loaders] == ["train", "evaluate"]
    assert [e.batches for e in case.evaluations] == [6, 6]
    assert all(e.with_grad for e in case.evaluations)
    assert all(e.training_mode == training_mode for e in case.evaluations)


def test_an_iterable_data_set_is_a_loader_like_others():
    class Stream(IterableDataset):
        def __iter__(self):
            yield from DATA

    def train() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        plain(model, optimizer, DataLoader(Stream(), batch_size=5))

    (loader,) = observed(train).loaders
    assert (loader.iterable, loader.iterations, len(loader.waits)) == (True, 1, 5)


def test_a_loader_built_anew_for_each_epoch_is_one_loader():
    def train() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            plain(model, optimizer, DataLoader(DATA, batch_size=4))
            with torch.no_grad():
                for x, _ in DataLoader(DATA, batch_size=8):
                    model(x)

    case = observed(train)
    assert [(loader.role, loader.iterations, len(loader.waits)) for loader in case.loaders] == [
        ("train", 3, 18),
        ("evaluate", 3, 9),
    ]
    assert case.epochs == 3


def test_two_loaders_in_use_are_two_though_they_are_alike():
    def train() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        sets = [TensorDataset(X, Y) for _ in range(2)]
        loader, held_out = [DataLoader(data, batch_size=4) for data in sets]
        plain(model, optimizer, loader)
        with torch.no_grad():
            for x, _ in held_out:
                model(x)

    assert [loader.role for loader in observed(train).loaders] == ["train", "evaluate"]


def test_persistent_workers_start_an_epoch_each_time():
    case = observed(lambda: epochs(3, num_workers=1, persistent_workers=True))
    (loader,) = case.loaders
    assert (case.steps.count, case.epochs) == (18, 3)
    assert (loader.iterations, len(loader.waits), len(loader.first_waits)) == (3, 18, 3)
    assert 0 <= loader.empty <= 1


def test_a_module_that_calls_its_parents_call_is_one_module():
    class Counting(nn.Module):
        calls = 0

        def __call__(self, *args):
            Counting.calls += 1
            return super().__call__(*args)

    class Net(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(2, 1)

        def forward(self, x):
            return self.inner(x)

    def train() -> None:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            plain(model, optimizer, DataLoader(DATA, batch_size=4))

    case = observed(train)
    assert Counting.calls == 18
    assert [(model.name, model.role) for model in case.models] == [("Net", "train")]


def test_it_stops_after_the_steps_that_were_asked_for():
    case = observed(lambda: epochs(50), limits=StopLimits(steps=9))
    assert case.steps.count == 9
    assert case.stopped == "9 steps were asked for"


def test_it_stops_after_whole_steps_of_several_optimizers():
    def train() -> None:
        critic, actor = net(), net()
        one = torch.optim.SGD(critic.parameters(), lr=0.1)
        other = torch.optim.SGD(actor.parameters(), lr=0.1)
        for _ in range(100):
            for _ in range(5):
                plain(critic, one, DataLoader(DATA, batch_size=24))
            plain(actor, other, DataLoader(DATA, batch_size=24))

    case = observed(train, limits=StopLimits(steps=9))
    assert (case.steps.count, case.steps.optimizers) == (9, 2)


def test_it_stops_after_the_steps_of_one_stage_and_the_next():
    def train() -> None:
        for _ in range(20):
            epochs(1)

    case = observed(train, limits=StopLimits(steps=15))
    assert (case.steps.count, case.steps.optimizers) == (15, 1)


def test_it_stops_after_the_time_that_was_asked_for():
    case = observed(lambda: epochs(100_000), limits=StopLimits(seconds=0.3))
    assert case.stopped == "0.3 s of training were observed"
    assert case.steps.count > 0


def test_a_script_that_catches_everything_is_stopped_again_but_not_for_ever():
    def train() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            try:
                plain(model, optimizer, DataLoader(DATA, batch_size=4))
            except BaseException:  # noqa: BLE001 - what such a script does
                continue

    case = observed(train, limits=StopLimits(steps=2))
    assert case.stopped is None, "it ran to its end"
    [said] = [line for line in case.not_checked if "could not be stopped" in line]
    assert "2 steps were asked for" in said
    assert case.steps.count < 60


def test_saves_are_seen_with_what_is_in_them(tmp_path):
    def train() -> None:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            plain(model, optimizer, DataLoader(DATA, batch_size=12))
            torch.save({"model": model.state_dict(), "epoch": 1}, tmp_path / "last.pt")
        torch.save(model, io.BytesIO())  # a copy in memory is no checkpoint
        with (tmp_path / "open.pt").open("wb") as file:
            torch.save(model, file)

    case = observed(train)
    assert [(save.step, save.kinds) for save in case.saves] == [
        (2, ("epoch", "model")),
        (4, ("epoch", "model")),
        (4, ("model",)),
    ]
    assert [save.same_path for save in case.saves] == [False, True, False]
    assert case.saves[-1].path == str(tmp_path / "open.pt")
    assert case.saves[0].bytes == (tmp_path / "last.pt").stat().st_size
    assert case.row("save") > 0


def test_a_loop_in_another_thread_is_left_alone():
    def train() -> None:
        thread = threading.Thread(target=epochs, args=(2,))
        thread.start()
        thread.join()

    case = observed(train)
    assert (case.steps.count, case.models) == (0, ())
    assert case.steps.how == "another thread"
    assert "optimizer steps of other threads: only the main one is watched" in case.not_checked


@pytest.mark.parametrize("method", ["on_batch", "add_to"])
def test_a_watcher_with_a_fault_is_left_out_and_told(method):
    def fail(*_: object) -> None:
        raise KeyError("planted")

    class Faulty(Probe):
        pass

    setattr(Faulty, method, fail)
    case = observed(lambda: epochs(3), prepare=lambda observer: observer.probes.append(Faulty()))
    assert case.steps.count == 18
    assert case.models
    (said,) = case.not_checked
    assert said == "what Faulty looks at, after a fault of its own: KeyError: 'planted'"


def test_a_fault_at_a_door_takes_the_doors_out_and_is_told():
    def train() -> None:
        epochs(1)
        hosts[0].on_iterator_created = None  # what the hooks of loaders call
        epochs(3)
        assert nn.Module.__call__ is old

    hosts, old = list[ScriptObserver](), nn.Module.__call__
    case = observed(train, prepare=hosts.append)
    assert case.steps.count == 6
    (said,) = case.not_checked
    assert said.startswith("what came after a fault of hotloop's own: TypeError:")
    assert nn.Module.__call__ is old


def test_a_full_tape_ends_observing_and_nothing_else():
    def train() -> None:
        epochs(40)
        assert nn.Module.__call__ is old

    old = nn.Module.__call__
    case = observed(train, prepare=lambda observer: setattr(observer.events, "limit", 300))
    assert 6 < case.steps.count < 240
    assert sum(case.wall.values()) < 60
    (said,) = case.not_checked
    assert said == f"what came after step {case.steps.count:,}: no more marks are kept in one run"


def test_probing_is_a_switch():
    with_probes = {type(probe) for probe in ScriptObserver(StopLimits()).probes}
    without = {type(probe) for probe in ScriptObserver(StopLimits(probing=False)).probes}
    kinds = {BatchProbe, Models, Habits, ProcessGroupProbe}
    assert kinds <= with_probes
    assert not kinds & without


FORWARD_CALLED = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)
    def forward(self, x):
        return self.last(self.first(x).relu())
policy, target = Net(), Net()
optimizer = torch.optim.SGD(policy.parameters(), 0.1)
for _ in range(5):
    goal = target.forward(torch.randn(6, 4))
    loss = (policy.forward(torch.randn(6, 4)) - goal).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_model_whose_forward_is_called_is_named_where_the_loop_calls_it(observed):
    models = observed(FORWARD_CALLED).models
    idle = [model for model in models if model.unoptimised]
    assert {model.name for model in idle} == {"Linear of Net"}
    called = FORWARD_CALLED.splitlines().index("    goal = target.forward(torch.randn(6, 4))") + 1
    assert {place.line for model in idle for place in model.call_places} == {called}
