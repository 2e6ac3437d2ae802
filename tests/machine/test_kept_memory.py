"""Memory that glibc keeps is not mapped again."""

import subprocess
import sys

import pytest

from hotloop.machine.kept_memory import can_keep, fault_seconds, page_faults

PROGRAM = """
import ctypes
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: a huge page is one fault, not 512
import torch
from hotloop.machine.kept_memory import give_back_memory, keep_memory, page_faults
def faults(times=20):
    before = page_faults()
    for _ in range(times):
        torch.ones(12 << 20)  # 48 MB: larger than what glibc ever keeps by itself
    return (page_faults() - before) // times
usual = faults()
assert keep_memory()
faults()
kept = faults()
give_back_memory()
# The first one alone: from the third on, 6 of 30 processes beside each other used memory that was
# free within the heap again, which glibc does not give back by itself.
print(usual, kept, faults(1))
"""


@pytest.mark.skipif(not can_keep(), reason="the C library is not glibc")
def test_kept_memory_is_not_mapped_again_until_it_is_given_back():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120
    )
    usual, kept, after = map(int, done.stdout.split())
    assert usual > 10_000  # pages of 4 KB
    assert kept < 100
    assert after > 10_000


@pytest.mark.skipif(page_faults() is None, reason="this system does not count page faults")
def test_a_fault_takes_less_than_a_millisecond():
    assert 0 <= fault_seconds() < 1e-3
