"""The figures of each recipe on each card that were seen, in matrix.json.

They are of one minor version of torch, which chooses the kernels. To write them anew after a change
that is meant: `python -m tests.nullcard.matrix --record`.
"""

import json
import os
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

__all__ = ["LOOKED_AT", "PATH", "TRAIN", "figures", "hold", "read", "write"]

PATH = Path(__file__).parent / "matrix.json"
LOOKED_AT = 3  # the engine inspects the gradients of as many steps
TOLERANCE = 0.02  # 4 of 188 launches: an update or an attention that is no longer fused is more
MIB = 1 << 20
UNIT_MIB = 20  # in which torch's allocator takes memory: one more or less is no other run

TRAIN = """
import torch
from tests.nullcard.steps import train
facts |= train(*{words!r})
facts["torch"] = ".".join(torch.__version__.split(".")[:2])
"""


def figures(run: Mapping[str, Any]) -> dict[str, float]:
    """Return a run's figures: the medians of its steps, and its peaks in MiB."""
    steps = run["steps"][LOOKED_AT:]
    return {
        "launches": statistics.median(step["launches"] for step in steps),
        "waits": statistics.median(sum(step["waits"].values()) for step in steps),
        "reserved_mib": run["reserved"] / MIB,
        "needed_mib": run["needed"] / MIB,
    }


def read() -> dict[str, Any]:
    """Return {"torch": its version, "rows": {name: {card: figures}}}."""
    there: dict[str, Any] = json.loads(PATH.read_text())
    return there


def write(version: str, rows: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Add rows to the file, or replace them; those of another version of torch go."""
    there = read() if PATH.is_file() else {"torch": version, "rows": {}}
    kept = there["rows"] if there["torch"] == version else {}
    for name, cards in rows.items():
        kept.setdefault(name, {}).update(cards)
    PATH.write_text(json.dumps({"torch": version, "rows": kept}, indent=1) + "\n")


def hold(name: str, card: str, version: str, run: Mapping[str, Any], *, pools: int = 1) -> None:
    """Compare a run's launches and peak of reserved memory with the file, or write them there.

    `pools` is the number of the allocator's pools that the run uses.
    """
    found = figures(run)
    if os.environ.get("HOTLOOP_NULLCARD_RECORD"):
        write(version, {name: {card: {**found, "outcome": "completed"}}})
    there = read()
    if there["torch"] != version:
        pytest.skip(f"matrix.json is of torch {there['torch']}, this is {version}")
    before = there["rows"].get(name, {}).get(card)
    assert before is not None, f"matrix.json has no figures of {name} on {card}: record them"
    assert found["launches"] == pytest.approx(before["launches"], rel=TOLERANCE)
    reserved = pytest.approx(before["reserved_mib"], rel=TOLERANCE, abs=pools * UNIT_MIB)
    assert found["reserved_mib"] == reserved
