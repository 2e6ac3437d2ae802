"""Spilling of a GPU's memory, by its system and by live readings of made-up GPUs."""

import pytest

from hotloop.core.hardware import Hardware
from hotloop.machine.memory_spill import spilled, spills

GIB = 1 << 30
LINUX, WSL = "Linux-6.8-generic-x86_64", "Linux-5.15.90.1-microsoft-standard-WSL2-x86_64"


def gpu(platform=LINUX, device="cuda"):
    versions = {"platform": platform}
    return Hardware(device=device, name="a GPU", memory_bytes=16 * GIB, versions=versions)


@pytest.mark.parametrize(
    ("hardware", "wanted"),
    [
        (gpu(), False),
        (gpu(WSL), True),
        (gpu("Windows-11-10.0.26100-SP0"), True),
        (gpu(WSL, device="cpu"), False),
    ],
)
def test_drivers_for_windows_spill(hardware, wanted):
    assert spills(hardware) is wanted


@pytest.mark.parametrize(
    ("platform", "held", "busy", "wanted"),
    [
        (LINUX, 17 * GIB, None, True),
        (LINUX, 15.5 * GIB, 0.08, False),
        (WSL, 15.5 * GIB, 0.08, True),
        (WSL, 15.5 * GIB, 0.9, False),
        (WSL, 15.5 * GIB, None, False),
        (WSL, 8 * GIB, 0.08, False),
        (WSL, None, 0.08, False),
    ],
)
def test_more_than_the_gpu_has_or_full_and_idle_where_drivers_spill(platform, held, busy, wanted):
    text = spilled(gpu(platform), held, busy)
    assert (text is not None) is wanted
    if text:
        assert "16 GiB" in text
        assert busy is None or "works 8% of the time" in text
