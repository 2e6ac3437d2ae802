"""Golden cases of R3 disk_room."""

from tests.golden.cases import machine, planned

POSITIVE = [
    planned(free_bytes=(4 << 20) - 1),
    planned(settings={"unwritable": "cannot write /runs: read-only"}),
    machine(free_bytes=1 << 30),
]
NEGATIVE = [planned(free_bytes=4 << 20), machine(free_bytes=10 << 30)]
