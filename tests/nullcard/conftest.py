"""Shared by the tests on the null card: the interpreter, and a process that has torch already."""

import os
from collections.abc import Callable, Iterator

import pytest
from tests.nullcard.programs import NullCardError, Ran, python, run
from tests.preloaded import Preloaded

from hotloop.nullcard.build import build, check_torch


@pytest.fixture(scope="session")
def interpreter() -> str:
    """An interpreter with torch's CUDA build; without one the test is skipped."""
    try:
        path = python()
    except NullCardError as error:
        pytest.skip(str(error))
    check_torch(path)
    return path


@pytest.fixture(scope="session")
def cuda_torch(interpreter: str) -> Iterator[Preloaded]:
    """A process under the null card's library; the card is chosen by each script it forks."""
    env = {**os.environ, "LD_PRELOAD": str(build())}
    with Preloaded(python=interpreter, env=env) as process:
        yield process


@pytest.fixture
def on_card(cuda_torch: Preloaded) -> Callable[..., Ran]:
    """Run a script on a card: `on_card("t4", script, memory=...)`."""

    def started(card: str, script: str, **more: object) -> Ran:
        return run(card, script, process=cuda_torch, **more)

    return started
