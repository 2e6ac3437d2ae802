"""Sample order as a pure function of (seed, epoch, index), the same on every machine and version.

Keys come from a counter hash, not from `numpy.random.Generator`: NEP 19 lets the streams of
Generator change between numpy versions (https://numpy.org/neps/nep-0019-rng-policy.html, 2026-11),
and a resumed run must meet the samples it would have met.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["offset", "permutation"]

# splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014;
# constants as in https://prng.di.unimi.it/splitmix64.c, 2026-11.
_GAMMA = 0x9E3779B97F4A7C15
_FACTOR_1, _FACTOR_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = (1 << 64) - 1

_PERMUTATION, _OFFSET = 0, 1  # what a key is for, so that no two uses share a stream


def permutation(seed: int, epoch: int, n: int) -> NDArray[np.int64]:
    """Return 0..n-1 in the order of (seed, epoch), shape [n].

    Each index is sorted by the output of splitmix64 at that place. Outputs of one stream never
    repeat within 2^64, so there are no ties. 4 million entries took 0.5 s on one core of a 2-core
    AMD EPYC machine (numpy 2.4.6, 2026-11). `seed` may be any integer; it counts modulo 2^64.
    """
    keys = _stream(_key(seed, epoch, _PERMUTATION), 0, n)
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)


def offset(seed: int, epoch: int, below: int) -> int:
    """Return a number in [0, below) for (seed, epoch), uniform to within below / 2^64."""
    assert below > 0, below
    return _nth(_key(seed, epoch, _OFFSET), 0) * below >> 64


def _key(seed: int, epoch: int, purpose: int) -> int:
    return _nth(_nth(_nth(seed, 0), epoch), purpose)


def _nth(state: int, index: int) -> int:
    """Return output `index` of splitmix64 started at `state`."""
    return int(_stream(state, index, 1)[0])


def _stream(state: int, first: int, count: int) -> NDArray[np.uint64]:
    """Return outputs first..first+count-1 of splitmix64 started at `state`; uint64 wraps around."""
    assert first >= 0 <= count, (first, count)
    z = np.arange(first + 1, first + 1 + count, dtype=np.uint64)
    z *= np.uint64(_GAMMA)
    z += np.uint64(state & _MASK)
    z ^= z >> np.uint64(30)
    z *= np.uint64(_FACTOR_1)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_FACTOR_2)
    z ^= z >> np.uint64(31)
    return z
