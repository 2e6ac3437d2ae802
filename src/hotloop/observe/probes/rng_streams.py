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
    """Return the state of each generator that other code might draw from as well."""
    import torch

    states: dict[str, Any] = {
        "torch": bytes(torch.get_rng_state().numpy()),
        "random": random.getstate(),
    }
    if "numpy" in sys.modules:
        states["numpy.random"] = _fixed(sys.modules["numpy"].random.get_state())
    own = {id(g): g for g in (loader.generator, getattr(loader.sampler, "generator", None)) if g}
    for number, generator in enumerate(own.values()):
        states[f"the loader's generator {number + 1}"] = bytes(generator.get_state().numpy())
    owners = (loader.dataset, loader.collate_fn)
    generators = {id(g): g for owner in owners for g in _generators_in(owner)}
    for number, generator in enumerate(generators.values()):
        states[f"the data set's generator {number + 1}"] = _state(generator)
    return states


def moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the generators whose states have changed."""
    return [name for name, state in after.items() if before.get(name, state) != state]


def _generators_in(owner: Any, depth: int = 3) -> Iterator[Any]:
    """Yield the generators that an object holds, directly or in its attributes and lists."""
    import numpy as np
    import torch

    of_numpy = np.random.Generator | np.random.RandomState
    if isinstance(owner, torch.Generator | random.Random | of_numpy):
        yield owner
    elif not depth or isinstance(owner, type | ModuleType | torch.Tensor):
        return
    elif isinstance(owner, list | tuple) or hasattr(owner, "__dict__"):
        parts = owner if isinstance(owner, list | tuple) else tuple(vars(owner).values())
        for value in parts[:_LOOKED_AT]:
            yield from _generators_in(value, depth - 1)


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
    """Return a NumPy state in a comparable form, with its arrays as bytes."""
    if isinstance(state, dict):
        return tuple((name, _fixed(value)) for name, value in state.items())
    if isinstance(state, tuple):
        return tuple(map(_fixed, state))
    return state.tobytes() if hasattr(state, "tobytes") else state
