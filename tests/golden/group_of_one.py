"""A group of torch.distributed whose only process is this one."""

import sys
from collections.abc import Iterator

import pytest
import torch

__all__ = ["join", "no_group_is_left"]


@pytest.fixture(autouse=True)
def no_group_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave the group of `join`; torch puts a hook of its own in as it is made."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def join() -> None:
    """Make this process all of a group, until the test is over."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
