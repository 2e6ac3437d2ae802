"""Loader processes in scripts; what they do in the engine stands in tests/test_parity.py."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from tests.golden.feeds import LATE, SAMPLERS, loader
from tests.golden.jobs import images, session_of
from tests.golden.outside import MACHINE, Augmented, Images, put_into, script
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, get_worker_info

from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.observe.probes.dataset_trial import can_fork
from hotloop.session.session import ScriptSession
from hotloop.techniques.loader_workers import TECHNIQUE

pytestmark = pytest.mark.skipif(not can_fork(), reason="no fork here")
GPU = Hardware(device="cuda", name="a GPU", cores=8.0, capability=(8, 6))
HAD = {
    "started each epoch": {"num_workers": 2, "timeout": 60},
    "kept": {"num_workers": 2, "prefetch_factor": 4, "persistent_workers": True},
}


def session(of: DataLoader, hardware: Hardware = MACHINE) -> ScriptSession:
    model = torch.nn.Module()
    return ScriptSession(
        hardware=hardware, device=torch.device("cpu"), model=model, forward=model, loader=of
    )


def applied(of: DataLoader, hardware: Hardware = MACHINE, **choice: Any) -> ScriptSession:
    put = session(of, hardware)
    put.needless = "" if TECHNIQUE.apply(put, **choice) else put.needless
    return put


def blocked(hardware: Hardware, **choice: Any) -> str | None:
    return TECHNIQUE.blocked(hardware, Plan(micro_batch=1).plus("loader-workers", **choice))


# In a script: losses with dropout and shuffling, evaluations and weights.


@pytest.mark.parametrize("had", HAD)
@pytest.mark.parametrize("use", ["count=0", "count=1:ahead=8", "count=2:pin=off"])
def test_a_script_with_workers_trains_bit_for_bit_the_same(had: str, use: str) -> None:
    plain = script(**HAD[had])
    result, effects = put_into(lambda: script(**HAD[had]), f"loader-workers:{use}")
    assert effects["loader-workers"].word == "in effect", effects
    assert result.equals(plain)
    assert result.loader.num_workers == int(use[6])


@pytest.mark.parametrize("sampler", [*SAMPLERS, *LATE])
def test_a_persistent_loader_is_read_in_the_loop_with_the_same_draws(sampler: str) -> None:
    def read() -> list[float]:
        torch.manual_seed(0)
        of, seen = loader(sampler, **HAD["kept"]), []
        for _ in range(3):
            for x, _ in of:
                seen += [x.sum().item(), torch.randn(()).item()]
        return seen

    found, effects = put_into(read, "loader-workers:count=0")
    assert effects["loader-workers"].word == "in effect", effects
    assert found == read()


def test_pinned_memory_and_whole_batches_go_together_with_workers() -> None:
    def read() -> list[float]:
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pin_memory without a GPU
            of = loader("of batches", pin_memory=True, **HAD["started each epoch"])
            return [x.sum().item() for _ in range(2) for x, _ in of]

    for use in ("count=0", "count=1"):
        found, effects = put_into(read, f"loader-workers:{use}")
        assert "into pinned memory" in effects["loader-workers"].how
        assert found == read()


# What is said.


def test_it_reads_back_what_the_loader_is_and_what_it_was() -> None:
    put = applied(loader("in order", **HAD["kept"]), count=0)
    assert TECHNIQUE.read_back(put) == (
        "0 loader processes: batches are made in the loop (it had 2)"
    )
    put = applied(loader("in order", **HAD["kept"]), count=1, ahead=4)
    assert TECHNIQUE.read_back(put) == (
        "1 loader processes, 4 batches ahead each, kept over epochs (it had 2)"
    )
    put.loader.num_workers = 3  # the script's own doing
    assert str(TECHNIQUE.read_back(put)).startswith("3 loader processes")


def test_failure_leaves_the_loader_as_it_was() -> None:
    of = loader("in order", **HAD["started each epoch"])
    before = dict(vars(of))
    put = applied(of, count=0)
    assert vars(of) != before
    put.undo["loader-workers"]()
    assert vars(of) == before
    assert put.loader_changes == {}


@pytest.mark.parametrize(
    ("options", "choice"),
    [
        ({}, {"count": 0}),
        (HAD["kept"], {"count": 2, "ahead": 4}),
        (HAD["kept"], {"count": 2, "ahead": 4, "pin": "off"}),
    ],
)
def test_what_a_loader_has_already_is_not_needed(options: dict, choice: dict) -> None:
    of = loader("in order", **options)
    before = dict(vars(of))
    put = applied(of, **choice)
    assert "already" in str(put.needless)
    assert put.refused is None
    assert vars(of) == before


def test_the_same_number_that_is_started_each_epoch_is_kept_from_now_on() -> None:
    of = loader("in order", **HAD["started each epoch"])
    assert applied(of, count=2, ahead=2).needless == ""
    assert of.persistent_workers


def test_in_the_engine_no_processes_is_what_there_is_and_pinning_can_be_left_out() -> None:
    of = session_of(images)
    assert TECHNIQUE.apply(of, count=0) == 0
    assert "no process was asked for" in TECHNIQUE.nothing
    assert TECHNIQUE.apply(of, count=1, pin="off") == 1
    assert (of.loading.workers, of.loading.pins) == (1, False)


# Pinned memory.


def test_pinned_memory_is_for_a_gpu() -> None:
    assert "CUDA GPU" in str(blocked(MACHINE, pin="on"))
    assert blocked(GPU, pin="on") is blocked(MACHINE, pin="off") is None


@pytest.mark.parametrize(
    ("hardware", "choice", "pinned"),
    [
        (GPU, {}, True),
        (GPU, {"pin": "off"}, False),
        (GPU, {"count": 0, "pin": "on"}, True),
        (MACHINE, {}, False),
    ],
)
def test_batches_are_pinned_where_that_was_asked_for(hardware, choice, pinned: bool) -> None:
    of = loader("in order")
    assert applied(of, hardware, **choice).refused is None
    assert of.pin_memory is pinned
    assert of.num_workers == choice.get("count", 2)


class Pins:
    """A batch of a class of its own."""

    def __init__(self, rows: list) -> None:
        self.x = torch.stack([x for x, _ in rows])

    def pin_memory(self) -> "Pins":
        return self


def rows_and_pins(rows: list) -> list:
    return [torch.stack([x for x, _ in rows]), torch.tensor([y for _, y in rows])]


def test_a_batch_that_pins_itself_is_not_compared_and_left_alone() -> None:
    put = applied(loader("in order", collate_fn=Pins), GPU, pin="on")
    assert "cannot be compared" in str(put.refused)
    of = loader("in order", collate_fn=Pins)
    assert "pins itself" in str(applied(of, GPU, count=0, pin="on").refused)
    assert not of.pin_memory
    assert applied(loader("in order", collate_fn=rows_and_pins), GPU, pin="on").refused is None


# What is refused.


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(16))


class OfItsOwn(Augmented):
    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(0)

    def __getitem__(self, index):
        self.random.random()  # to no effect that a batch would show
        return self.x[index], index


class Counting(Images):
    reads = 0

    def __getitem__(self, index):
        self.reads += 1
        return super().__getitem__(index)


class Opening(Images):
    file = None

    def __getitem__(self, index):
        self.file = self.file or object()
        return super().__getitem__(index)


class Sharded(Images):
    def __getitem__(self, index):
        info = get_worker_info()
        return super().__getitem__(index)[0] + (info.id if info else 0), 0


class Views(Images):
    def __getitem__(self, index):
        return self.x[index : index + 4]


REFUSED = {
    "draws from torch": {"dataset": Augmented()},
    "the data set's generator": {"dataset": OfItsOwn()},
    "an iterable data set": {"dataset": Stream()},
    "worker_init_fn": {"dataset": Images(), "worker_init_fn": print},
    "in_order=False": {"dataset": Images(), "in_order": False},
    "without fork": {"dataset": Images(), "multiprocessing_context": "spawn"},
    "changes the data set": {"dataset": Counting()},
    "is not the same": {"dataset": Sharded()},
    "has memory in common": {"dataset": Views(), "batch_size": None},
}


@pytest.mark.parametrize("why", REFUSED)
@pytest.mark.parametrize("count", [0, 1])
def test_what_might_read_something_else_is_refused(why: str, count: int) -> None:
    of = DataLoader(**{"batch_size": 4, **REFUSED[why]}, num_workers=2)
    before = dict(vars(of))
    assert why in str(applied(of, count=count).refused)
    assert vars(of) == before


def test_what_stays_in_a_worker_is_not_left_in_the_scripts_own_data_set() -> None:
    assert "leaves something" in str(
        applied(DataLoader(Opening(), 4, num_workers=1), count=0).refused
    )
    assert applied(DataLoader(Opening(), 4, num_workers=1), count=2).refused is None


def test_an_order_is_not_read_further_ahead_than_it_was_where_it_is_drawn_on_the_way() -> None:
    def of() -> DataLoader:
        return loader("drawn one by one", num_workers=1, prefetch_factor=4)

    assert applied(of(), count=2, ahead=2).refused is None
    assert applied(of(), count=0).refused is None
    assert "sampler draws from torch" in str(applied(of(), count=2, ahead=4).refused)


def test_workers_that_run_already_are_the_scripts() -> None:
    of = loader("in order", **HAD["kept"])
    next(iter(of))
    assert "run already" in str(applied(of, count=0).refused)
    of._iterator = None


def test_data_in_memory_are_read_in_the_loop_but_by_no_new_processes() -> None:
    data = TensorDataset(torch.arange(40.0))
    assert applied(DataLoader(data, 4, num_workers=2), count=0).refused is None
    assert applied(DataLoader(data, 4, num_workers=2), count=1).refused is None
    assert "lie in memory" in str(applied(DataLoader(data, 4), count=1).refused)


def test_more_processes_than_cores_and_processes_without_a_batch_are_blocked() -> None:
    assert "3 loader processes on 2 cores" in str(blocked(MACHINE, count=3))
    assert "no batch that is ahead" in str(blocked(MACHINE, ahead=0))
    assert blocked(MACHINE, count=0) is blocked(MACHINE, count=0, ahead=0) is None
