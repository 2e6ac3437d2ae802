"""What the tests of recipes share: the script that trains, and the launches that were seen.

`launches.json` holds the launches of a step, for each minor version of torch, which chooses the
kernels. To write it anew after a change that is meant:
HOTLOOP_NULLCARD_RECORD=1 make test-nullcard.
"""

import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

__all__ = ["LOOKED_AT", "TRAIN", "hold_launches"]

GOLDEN = Path(__file__).parent / "launches.json"
LOOKED_AT = 3  # the engine inspects the gradients of as many steps
TOLERANCE = 0.02  # 4 of 188 launches: an update or an attention that is no longer fused is more

TRAIN = """
import torch
from tests.nullcard.steps import train
facts |= train(*{words!r})
facts["torch"] = ".".join(torch.__version__.split(".")[:2])
"""


def hold_launches(name: str, version: str, steps: Sequence[dict[str, Any]]) -> None:
    """Compare the median of the steps' launches with launches.json, or write it there."""
    launches = statistics.median(step["launches"] for step in steps)
    golden = json.loads(GOLDEN.read_text())
    versions = golden.setdefault(name, {})
    if os.environ.get("HOTLOOP_NULLCARD_RECORD"):
        versions[version] = launches
        GOLDEN.write_text(json.dumps(golden, indent=2) + "\n")
    if (before := versions.get(version)) is None:
        pytest.skip(f"launches.json has no count for torch {version}")
    assert launches == pytest.approx(before, rel=TOLERANCE)
