"""Shared by every test: a cache of their own, a small corpus, and the settings of a tiny run."""

import contextlib
import gc
import os
import random
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.preloaded import Preloaded

_CACHE = tempfile.TemporaryDirectory(prefix="hotloop-test-cache-")
os.environ["OMP_NUM_THREADS"] = "1"  # another count rounds otherwise, and spins on a busy machine
os.environ["HOTLOOP_CACHE"] = _CACHE.name  # before hotloop reads the environment, once

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "while", "wizards"]


def pytest_sessionstart() -> None:
    gc.disable()  # while modules are imported: of a million objects none is garbage


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


@pytest.fixture(scope="module")
def patch_of_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module", autouse=True)
def unsynced_disk(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave out what only a loss of power could tell: 2 ms for each file."""
    from hotloop.core.storage.files import DISK

    calls = {"fsync": os.fstat, "fsync_folder": Path.stat}
    if "tests/core/storage" in request.path.as_posix():  # where this is what is tested
        calls = {}
    kept = {name: getattr(DISK, name) for name in calls}
    for name, call in calls.items():
        object.__setattr__(DISK, name, call)
    yield
    for name, call in kept.items():
        object.__setattr__(DISK, name, call)


@pytest.fixture(scope="module", autouse=True)
def frozen_imports(patch_of_module: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep what is imported out of the collector's sight, also after a run has undone gc-freeze.

    A run collects and counts before its first step: 0.3 s and more with all imports in sight. To
    what is tested it looks as if they were not there. What runs freeze is counted alone, so that it
    can be collected when the module is over: with all imports that takes a second.
    """
    freeze, frozen, has_run = gc.freeze, 0, False

    def count() -> None:
        nonlocal frozen, has_run
        frozen, has_run = frozen + len(gc.get_objects()), True

    def forget() -> None:
        nonlocal frozen
        frozen = 0

    patch_of_module.setattr(gc, "freeze", count)
    patch_of_module.setattr(gc, "unfreeze", forget)
    patch_of_module.setattr(gc, "get_freeze_count", lambda: frozen)
    yield
    if has_run:
        gc.collect()
        freeze()  # what the runs have imported


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """About 2,000 characters: 110 windows of 16, so that a batch of 6 leaves a ragged one."""
    draw = random.Random(0)
    text = " ".join(draw.choice(WORDS) for _ in range(440))[:1990]
    path = tmp_path_factory.mktemp("corpus") / "words.txt"
    path.write_text(text + "\n")
    return path


@pytest.fixture(scope="session")
def tiny(corpus: Path) -> list[str]:
    """Settings of a run of 40 steps that crosses two epoch ends and draws dropout masks."""
    return [
        f"data.path={corpus}",
        "model.layers=1",
        "model.heads=2",
        "model.width=16",
        "model.context=16",
        "model.dropout=0.1",
        "training.batch_size=6",
        "training.accumulation=1",
        "training.max_steps=40",
        "training.warmup_steps=5",
        "training.learning_rate=0.01",
        "training.eval_every_steps=10",
        "training.save_every_steps=7",
        "training.keep=4",
        "training.log_every=5",
        "training.precision=fp32",
    ]


@pytest.fixture(scope="session")
def preloaded() -> Iterator[Preloaded]:
    """What starts hotloop in a process of its own that has torch already."""
    with Preloaded() as process:
        yield process


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """As many open files that the next one's number is more than `select` takes (1024)."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, limits[1]), limits[1]))
    with contextlib.ExitStack() as files:
        while files.enter_context(open(os.devnull)).fileno() < 1024:
            pass
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
