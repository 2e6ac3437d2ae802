"""When the allocator's segments grow, and when its settings stay as they are."""

from types import SimpleNamespace

import pytest

from hotloop.core.hardware import Hardware
from hotloop.machine import growing_segments
from hotloop.machine.growing_segments import grow_segments, why_not_growing

GPU = Hardware(device="cuda", name="a GPU", versions={"platform": "Linux-6.1-x86_64"})
WSL = Hardware(device="cuda", name="a GPU", versions={"platform": "Linux-5.15-microsoft-WSL2"})


class Torch:
    """As much of torch as the module asks; its driver refuses memory that grows if `refuses`."""

    uint8 = "uint8"

    def __init__(self, *, backend="native", hip=None, refuses=False):
        self.done = []
        self.version = SimpleNamespace(hip=hip)
        self.cuda = SimpleNamespace(
            get_allocator_backend=lambda: backend, empty_cache=lambda: self.done.append("emptied")
        )
        self._C = SimpleNamespace(_accelerator_setAllocatorSettings=self.done.append)
        self._refuses = refuses

    def empty(self, size, *, dtype, device):
        self.done.append("probed")
        if self._refuses:
            raise RuntimeError("CUDA driver error: operation not supported")


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in growing_segments._OWN:
        monkeypatch.delenv(name, raising=False)


def test_segments_grow_until_it_is_taken_back():
    torch = Torch()
    put_back = grow_segments(GPU, torch)
    assert torch.done == ["emptied", "expandable_segments:True", "probed", "emptied"]
    put_back()
    assert torch.done[-1] == "expandable_segments:False"


def test_a_driver_that_refuses_keeps_the_settings():
    torch = Torch(refuses=True)
    assert grow_segments(GPU, torch) is None
    assert torch.done[-1] == "expandable_segments:False"


@pytest.mark.parametrize(
    ("hardware", "torch", "why"),
    [
        (Hardware(device="cpu", name="a CPU"), Torch(), "not a CUDA GPU"),
        (WSL, Torch(), "Windows and WSL"),
        (GPU, Torch(hip="6.2"), "ROCm"),
        (GPU, Torch(backend="cudaMallocAsync"), "not torch's own"),
    ],
)
def test_where_segments_do_not_grow_nothing_is_touched(hardware, torch, why):
    assert why in why_not_growing(hardware, torch)
    assert grow_segments(hardware, torch) is None
    assert torch.done == []


@pytest.mark.parametrize("name", growing_segments._OWN)
def test_the_users_own_settings_stay(monkeypatch, name):
    monkeypatch.setenv(name, "max_split_size_mb:128")
    torch = Torch()
    assert why_not_growing(GPU, torch) == f"{name} is set"
    assert grow_segments(GPU, torch) is None
    assert torch.done == []
