"""The arguments of torch's own DataLoader and optimizers that do what a technique does."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hotloop.diagnosis.script_options import Option
from hotloop.rules.support.syntax import keyword

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotloop.core.plan import Value
    from hotloop.diagnosis.script_source import ScriptSource
    from hotloop.diagnosis.value_origin import Change, Origins

__all__ = ["TORCH_MAKERS"]

_FUSED = ("AdamW", "Adam", "SGD", "Adagrad")
_BEFORE_WORKERS = 5  # parameters of DataLoader before num_workers
_NO_WORKERS = {"persistent_workers": "False", "prefetch_factor": "None", "timeout": "0"}
_UNSAID = {"num_workers": "0", "pin_memory": "False"}  # the defaults of DataLoader

_Made = list["Change"] | str
_Choice = dict[str, "Value"]


def _fused(origins: Origins, script: ScriptSource, choice: _Choice) -> _Made:
    del choice
    changes = list["Change"]()
    for call in script.calls("torch.optim", *_FUSED):
        if all(_is_off(origins, script, call, n) for n in ("fused", "foreach", "differentiable")):
            made = origins.arguments(script, call, {"fused": "True"})
            if isinstance(made, str):
                return made
            changes += made
    return changes or "no optimizer of torch's is built in this file that could take it"


def _is_off(origins: Origins, script: ScriptSource, call: ast.Call, name: str) -> bool:
    """Whether a keyword is absent, or its value is known to be 0, False or None."""
    value = keyword(call, name)
    return value is None or origins.current(script, value) in ("0", "False", "None")


def _workers(origins: Origins, script: ScriptSource, choice: _Choice) -> _Made:
    loaders = [
        (call, words)
        for call in script.calls("torch.utils.data", "DataLoader")
        if len(call.args) <= _BEFORE_WORKERS
        and (words := _loader_words(origins, script, call, choice))
    ]
    shuffled = [pair for pair in loaders if any(k.arg == "shuffle" for k in pair[0].keywords)]
    changes = list["Change"]()
    for call, words in shuffled or loaders:
        made = origins.arguments(script, call, words)
        if isinstance(made, str):
            return made
        changes += made
    return (
        changes or "no DataLoader whose plain number of worker processes would change is built here"
    )


def _loader_words(
    origins: Origins, script: ScriptSource, call: ast.Call, choice: _Choice
) -> dict[str, str]:
    """Return the keywords that a DataLoader shall have.

    Return none if it has them already, or if its number of workers is computed.
    """
    present = {
        word.arg: origins.current(script, word.value) or ast.unparse(word.value)
        for word in call.keywords
    }
    count, pin = choice.get("count", 2), {"on": "True", "off": "False"}.get(str(choice.get("pin")))
    words = {"num_workers": str(count)} | ({"pin_memory": pin} if pin else {})
    if not count:  # DataLoader raises ValueError for options of workers without workers
        words |= {name: off for name, off in _NO_WORKERS.items() if name in present}
    else:
        off = _is_off(origins, script, call, "persistent_workers")
        words |= {"persistent_workers": _persistent(origins, script, call)} if off else {}
        if "ahead" in choice or "prefetch_factor" in present:
            words["prefetch_factor"] = str(choice.get("ahead", 2))
    plain = present.get("num_workers", "0").isdigit()
    changes = any(present.get(name, _UNSAID.get(name)) != word for name, word in words.items())
    return words if plain and changes else {}


def _persistent(origins: Origins, script: ScriptSource, call: ast.Call) -> str:
    """Return True, or for a number of workers that may be typed as 0 an expression that fits."""
    count = keyword(call, "num_workers")
    if count is None or not isinstance(origins.of(script, count), Option):
        return "True"
    return f"{ast.unparse(count)} > 0"


TORCH_MAKERS: Mapping[str, Callable[[Origins, ScriptSource, _Choice], _Made]] = {
    "fused-adamw": _fused,
    "loader-workers": _workers,
}
