"""The states of the random generators that reading a data set may draw from."""

from __future__ import annotations

import random
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["moved", "positions"]

_LOOKED_AT = 64  # elements of a list or a mapping


def positions(loader: Any) -> dict[str, Any]:
    """Return the state of each generator that somebody else might draw from as well."""
    import torch

    found: dict[str, Any] = {
        "torch": bytes(torch.get_rng_state().numpy()),
        "random": random.getstate(),
    }
    if "numpy" in sys.modules:
        found["numpy.random"] = _fixed(sys.modules["numpy"].random.get_state())
    own = {id(g): g for g in (loader.generator, getattr(loader.sampler, "generator", None)) if g}
    for number, generator in enumerate(own.values()):
        found[f"the loader's generator {number + 1}"] = bytes(generator.get_state().numpy())
    held = {id(g): g for thing in (loader.dataset, loader.collate_fn) for g in _held(thing)}
    for number, generator in enumerate(held.values()):
        found[f"the data set's generator {number + 1}"] = _state(generator)
    return found


def moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the generators whose states are not what they were."""
    return [name for name, state in after.items() if before.get(name, state) != state]


def _held(thing: Any, depth: int = 3) -> Iterator[Any]:
    """Yield the generators that an object holds, or what it holds."""
    import numpy as np
    import torch

    of_numpy = np.random.Generator | np.random.RandomState
    if isinstance(thing, torch.Generator | random.Random | of_numpy):
        yield thing
    elif not depth or isinstance(thing, type | ModuleType | torch.Tensor):
        return
    elif isinstance(thing, list | tuple):
        for each in thing[:_LOOKED_AT]:
            yield from _held(each, depth - 1)
    elif hasattr(thing, "__dict__"):
        for each in tuple(vars(thing).values())[:_LOOKED_AT]:
            yield from _held(each, depth - 1)


def _state(generator: Any) -> Any:
    import numpy as np
    import torch

    if isinstance(generator, torch.Generator):
        return bytes(generator.get_state().numpy())
    if isinstance(generator, np.random.Generator):
        return _fixed(generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        return _fixed(generator.get_state())
    return generator.getstate()


def _fixed(state: Any) -> Any:
    """Return a state of numpy's that can be compared: its arrays as bytes."""
    if isinstance(state, dict):
        return tuple((name, _fixed(each)) for name, each in state.items())
    if isinstance(state, tuple):
        return tuple(map(_fixed, state))
    return state.tobytes() if hasattr(state, "tobytes") else state
