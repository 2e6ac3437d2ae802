"""A run folder made by hand, and a tracker that remembers what it was given."""

import json
from dataclasses import dataclass, field

import pytest

from hotloop.core.errors import DeviceError
from hotloop.core.events import event_line
from hotloop.core.storage.rundir import RunDir

AT = 1_000_000.0  # when the session's clock stood at 0, in seconds since 1970
RECORD = {
    "schema": 1, "recipe": "char-lm", "status": "complete", "precision": "fp32",
    "config": {"seed": 1, "training.betas": [0.9, 0.99], "data.path": None},
    "hardware": {"name": "Test CPU", "cores": 2.0, "versions": {"torch": "2.13.0"}},
    "effects": [{"technique": "sdpa(backend=auto)", "word": "in effect"}],
}  # fmt: skip


def session(t=1.0):
    return event_line("session", step=0, t=t, at="1970-01-12T13:46:41+00:00", pid=1)


def step(n, *, loss=2.0):
    return event_line(
        "step", step=n, t=1.0 + n, clock="host", wall=0.5, data=0.1, loss=loss, norm=None, lr=1e-3,
        epoch=0, first=0, samples=4, tokens=8, targets=8, ids="00",
    )  # fmt: skip


def validation(n, *, loss=3.0):
    return event_line("eval", step=n, t=1.5 + n, wall=0.25, loss=loss, targets=8, best=True)


def resumed(n):
    return event_line("resumed_from", step=n, t=1.0, evaluated=n)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(RECORD))
    return RunDir(tmp_path)


@pytest.fixture
def add(folder):
    """Append whole lines, and with `tail` a torn one."""

    def append(*lines, tail=""):
        with folder.events_file().open("a") as stream:
            stream.write("".join(f"{line}\n" for line in lines) + tail)

    return append


@dataclass
class Tracker:
    """Runs of a tracker by their id; `takes_back` is what TensorBoard can and others cannot."""

    takes_back: bool = False
    down: bool = False
    runs: dict = field(default_factory=dict)
    openings: list = field(default_factory=list)
    closed: list = field(default_factory=list)

    def open(self, opening):
        self.openings.append(opening)
        id = opening.id or f"run-{len(self.runs) + 1}"
        return _Run(self, id, self.runs.setdefault(id, []))

    def losses(self, id="run-1"):
        return [(p.step, p.value) for p in self.runs[id] if p.name == "train/loss"]


class _Run:
    def __init__(self, tracker, id, points):
        self.id, self.where, self._tracker, self._points = id, f"at {id}", tracker, points

    def write(self, points):
        if self._tracker.down:
            raise DeviceError("the tracker is down")
        self._points += points

    def take_back(self, after):
        if self._tracker.takes_back:
            self._points[:] = [point for point in self._points if point.step <= after]
        return self._tracker.takes_back

    def close(self, status):
        self._tracker.closed.append((self.id, status))


@pytest.fixture
def tracker():
    return Tracker()
