"""Golden cases of R5 slow_disk."""

from tests.golden.cases import machine

POSITIVE = [machine(disk_write=20e6), machine(disk_write=1e7, disk_read=9e7)]
NEGATIVE = [machine(disk_write=None, disk_read=None), machine(disk_write=1e8, disk_read=1e8)]
