"""Makes the folder of a run of several ranks by hand, so that every time in it is known."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hotloop.core.events import PHASES, event_line, step_line
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan
from hotloop.core.storage.rundir import RunDir

__all__ = ["GIB", "OWN", "Times", "add", "hostile_ranks", "log", "made", "slowed"]

Times = Callable[[int, int], Mapping[str, float]]  # (rank, step) -> seconds of its own phases
OWN = {"data": 0.010, "forward": 0.030, "backward": 0.050, "update": 0.010}  # 100 ms
GIB = 1 << 30


def slowed(rank: int, **factors: float) -> Times:
    """All alike but one rank, some phases of which take `factors` times as long."""

    def times(of: int, step: int) -> Mapping[str, float]:
        return {
            name: s * (factors.get(name, 1.0) if of == rank else 1.0) for name, s in OWN.items()
        }

    return times


ALIKE = slowed(0)


def log(
    rank: int,
    world: int,
    *,
    numbers: Sequence[int],
    own: Times,
    travels: float = 0.0,
    tokens: Sequence[int] = (),
    memory: Sequence[float | None] = (),
    clock: str = "host",
    end: bool = True,
) -> list[str]:
    """Return a session of a rank: it waits until the slowest is there, and then `travels`."""
    lines = [event_line("session", step=numbers[0] - 1, t=0.5, at="2026-11-23T10:00:00+00:00")]
    if numbers[0] > 1:
        lines.append(event_line("resumed_from", step=numbers[0] - 1, t=0.5, evaluated=0))
    t, spent = 0.5, dict.fromkeys(PHASES, 0.0)
    for number in numbers:
        mine = own(rank, number)
        slowest = max(sum(own(other, number).values()) for other in range(world))
        phases = {**mine}
        if world > 1:
            phases["exchange"] = slowest - sum(mine.values()) + travels
        t += sum(phases.values())
        spent = {name: spent[name] + phases.get(name, 0.0) for name in PHASES}
        line = step_line(
            number, t=t, clock=clock, phases=phases, loss=3.0 - number / 1000, norm=1.0,
            learning_rate=1e-3, epoch=0, first=0, samples=8,
            tokens=tokens[rank] if tokens else 800, targets=700, ids="00",
        )  # fmt: skip
        lines.append(line)
        if number % 10 == 0 and (not memory or memory[rank] is not None):
            size = memory[rank] if memory else GIB
            lines.append(
                event_line("reading", step=number, t=t, memory_bytes=size, utilisation=0.5)
            )
    if end:
        inside = sum(spent.values()) - spent["data"]
        wall = {"start": 0.5, "data wait": spent["data"], "step": inside, "other": 0.01}
        lines.append(event_line("end", step=numbers[-1], t=t, reason="complete", wall=wall))
    return lines


def add(run: RunDir, rank: int, lines: Sequence[str]) -> None:
    """Append lines to a rank's log."""
    journal = run.journal(rank)
    journal.append(lines)
    journal.close()


def made(
    path: Path,
    *,
    world: int = 2,
    steps: int = 40,
    own: Times = ALIKE,
    device: str = "cpu",
    backend: str = "gloo",
    hosts: Sequence[str] | None = None,
    leave_out: Sequence[int] = (),
    record: Mapping[str, object] | None = None,
    **written: object,
) -> RunDir:
    """Make the folder of a run; `written` goes to `log`, `leave_out` are ranks without one."""
    hardware = Hardware(device=device, name="Test", cores=2.0, memory_bytes=16 * GIB)
    ranks = {"world": world, "backend": backend, "hosts": list(hosts or ["here"] * world)}
    fields: dict[str, object] = {
        "recipe": "char-lm",
        "status": "complete",
        "reason": "complete",
        "created": "2026-11-23T10:00:00+00:00",
        "config": {"training.log_every": 1},
        "origins": {},
        "steps": steps,
        "loss_unit": "nats",
        "precision": "fp32",
        "flops_per_token": 1e5,
        "choices": [],
        "data": {"rows": {"valid": 16}},
        "hardware": hardware.to_json(),
        "effects": [],
        **({"ranks": ranks} if world > 1 else {}),
        **(record or {}),
    }
    run = RunDir(path)
    run.create(fields, Plan(micro_batch=4, accumulation=2, ranks=world))
    for rank in range(world):
        if rank not in leave_out:
            lines = log(rank, world, numbers=range(1, steps + 1), own=own, **written)  # type: ignore[arg-type]
            add(run, rank, lines)
    return run


def hostile_ranks() -> list[object]:
    """What a record may hold in place of its ranks."""
    worlds = [0, 1, -2, True, 2.0, "2", None, 10**9, 10**400]
    return [
        "x",
        3,
        [],
        None,
        {},
        *({"world": world, "backend": [], "hosts": {}} for world in worlds),
    ]
