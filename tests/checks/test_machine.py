from pathlib import Path

from hotloop.checks import machine
from hotloop.core.hardware import Hardware

GIB = 1 << 30
CPU = Hardware(device="cpu", name="a CPU", cores=2)
CARD = Hardware(device="cuda", name="a card", memory_bytes=10 * GIB)


def test_a_driver_without_a_card_in_use_is_critical():
    versions = {"driver": "535.104.05", "torch": "2.13.0+cpu"}
    found = machine.wrong_device(Hardware(device="cpu", name="a CPU", versions=versions))
    assert found.severity == "critical"
    assert "535.104.05" in found.claim
    assert "2.13.0+cpu" in found.claim
    assert machine.wrong_device(CPU) is None
    assert machine.wrong_device(Hardware(device="cuda", name="x", versions=versions)) is None


def test_busy_cores_are_said():
    assert machine.busy_cores(CPU, 0.4) is None
    assert machine.busy_cores(CPU, 1.5).severity == "warn"
    assert "1.5 cores busy (this one may use 2)" in machine.busy_cores(CPU, 1.5).claim
    assert machine.busy_cores(CARD, 1.5).severity == "note"


def test_memory_that_others_hold_is_said():
    assert machine.shared_card(CARD, 9 * GIB) is None
    assert "3 GiB of the card's 10 GiB" in machine.shared_card(CARD, 7 * GIB).claim
    assert machine.shared_card(CARD, None) is None
    assert machine.shared_card(CPU, 0) is None


def test_a_full_disk_is_said():
    assert machine.little_disk(Path("/runs"), 20 * GIB) is None
    assert "1 GiB are free at /runs" in machine.little_disk(Path("/runs"), GIB).claim
