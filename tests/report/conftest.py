"""Run folders made by hand, so that every number on a page is known."""

from collections.abc import Callable, Iterable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hotloop.core.events import event_line
from hotloop.core.hardware import Hardware
from hotloop.core.measurement import Measurement
from hotloop.core.plan import Plan
from hotloop.core.storage.rundir import RunDir

HARDWARE = Hardware(
    device="cpu",
    name="Test CPU",
    memory_bytes=1 << 34,
    cores=2.0,
    versions={"hotloop": "0.1.0", "torch": "2.13.0"},
    measured={"fp32": Measurement(unit="FLOP/s", readings=(1e9,))},
)
PLAN = Plan(micro_batch=4).plus("fused-adamw").plus("sdpa", backend="auto")


VOID = {"meta", "br", "link", "hr", "img", "input"}
EVIL = "</script></style><script>alert(1)</script><img src=x onerror=alert(1)>\"'`\u202e\x00\ud800"


class Sound(HTMLParser):
    """Holds every element closed in order, and lists what a page holds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.attributes: list[str] = []
        self.ids: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def step(n: int, *, t: float, loss: float = 2.0, tokens: int = 120, **changes: object) -> str:
    fields = {
        "clock": "host", "wall": 0.1, "data": 0.01, "forward": 0.03, "backward": 0.05,
        "update": 0.01, "loss": loss, "norm": 1.0, "lr": 1e-3, "epoch": 0, "first": 0,
        "samples": 4, "tokens": tokens, "targets": tokens, "ids": "00",
    }  # fmt: skip
    return event_line("step", step=n, t=t, **{**fields, **changes})


def session(after: int = 0, *, t: float = 1.0) -> str:
    return event_line("session", step=after, t=t, at="2026-11-21T13:41:35+00:00", pid=1)


def end(last: int, *, t: float, reason: str = "complete", **wall: float) -> str:
    return event_line("end", step=last, t=t, reason=reason, wall=wall)


def usual(
    count: int = 40, *, seconds: float = 0.1, jitter: float = 0.01, loss: float = 4.0
) -> list[str]:
    """One process: a start of 1 s, `count` steps, a validation at the end of 0.5 s."""
    lines, t = [session()], 1.0
    for n in range(1, count + 1):
        t += seconds * (1 + jitter * (n % 3 - 1))
        lines.append(step(n, t=t, loss=loss - n / count))
        if n % 10 == 0:
            lines.append(
                event_line("reading", step=n, t=t, memory_bytes=2**30 + n, utilisation=0.5)
            )
    lines.append(
        event_line("eval", step=count, t=t + 0.5, wall=0.5, loss=loss - 0.9, targets=9, best=True)
    )
    return [*lines, end(count, t=t + 0.5, start=1.0, step=t - 1.0, evaluate=0.5)]


RECORD: dict[str, object] = {
    "recipe": "char-lm",
    "status": "complete",
    "reason": "complete",
    "created": "2026-11-21T13:41:34+00:00",
    "config": {"seed": 1, "model.width": 16, "training.log_every": 10, "data.path": "words.txt"},
    "origins": {"seed": "default", "data.path": "command line"},
    "steps": 40,
    "loss_unit": "nats",
    "precision": "fp32",
    "flops_per_token": 1e5,
    "facts": {"model": "123 parameters", "device": "Test CPU"},
    "choices": [{"what": "fused-adamw", "origin": "auto", "reason": "one kernel"}],
    "data": {
        "fingerprint": "abc",
        "train_tokens": 12345,
        "sources": [{"name": "words.txt", "bytes": 2000}],
    },
    "hardware": HARDWARE.to_json(),
    "effects": [
        {
            "technique": "fused-adamw",
            "origin": "auto",
            "word": "in effect",
            "how": "fused=True in 2 groups",
        }
    ],
}

Made = Callable[..., Path]


@pytest.fixture
def made(tmp_path) -> Made:
    """Make a run folder: made("name", events, field=value of run.json)."""

    def make(name: str, events: Iterable[str], plan: Plan = PLAN, **changes: object) -> Path:
        run = RunDir(tmp_path / name)
        run.create({**RECORD, **changes}, plan)
        journal = run.journal()
        journal.append(events)
        journal.close()
        return run.path

    return make
