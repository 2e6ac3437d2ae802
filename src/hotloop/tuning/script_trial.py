"""A script under a plan, a block of steps at a time: what runs in the process of a trial.

What is asked for is the one argument, JSON; what follows is the script as after `python`. It is the
script that runs: it writes what it writes in its first steps. The process is ended in the middle of
it. A script that does not seed itself is seeded, so that every trial trains on the same numbers.
"""

from __future__ import annotations

import json
import socket
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from hotloop import techniques
from hotloop.core.plan import Plan
from hotloop.diagnosis.apply_techniques import AppliedTechniques
from hotloop.observe.hooks.listener import Probe
from hotloop.observe.observer import ScriptObserver
from hotloop.observe.wall.step_boundaries import Cadence
from hotloop.observe.whatif.without_one_cost import Patches
from hotloop.observe.when_to_stop import StopLimits
from hotloop.process import run_script
from hotloop.process.import_hooks import ImportHooks
from hotloop.tuning.first_step_record import Witness
from hotloop.tuning.step_gate import Gate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.techniques.base import Technique

__all__ = ["command", "device_peak", "main", "wait"]

_SEED: Final = 1234
_FEW: Final = 256  # backward passes without an optimizer's step: then there will be none


def command(
    channel: int, plan: Plan, script: tuple[str, ...], *, module: str = __name__
) -> list[str]:
    """Return the command that starts the trial; `script` is what follows `python`.

    `module` is a seam: one whose `main` knows other techniques.
    """
    asked = json.dumps({"channel": channel, "plan": plan.to_json()})
    return [sys.executable, "-c", run_script.starter(module), asked, *script]


def main(argv: list[str], *, known: Sequence[Technique] = techniques.ALL) -> None:
    """Run the script until the parent has seen enough; does not return."""
    said = json.loads(argv[0])
    trial = _ScriptTrial(said["channel"], Plan.from_json(said["plan"]), known)
    run_script.run(run_script.ScriptTarget.of(argv[1:]), finished=trial.script_ended)


class _ScriptTrial:
    """Counts steps, keeps evidence, puts the plan in."""

    def __init__(self, channel: int, plan: Plan, known: Sequence[Technique]) -> None:
        self._observer = ScriptObserver(StopLimits(full=True, probing=False))
        origins = {use.id: "tune" for use in plan.techniques}
        self._put_in = AppliedTechniques(plan, origins, known=known)
        self._put_in.join(self._observer)
        self._witness, self._cadence = Witness(), Cadence()
        self._patches = Patches()
        self._backwards = 0
        self._optimizers: dict[int, int] = {}  # id -> number, in the order of their first steps
        line = socket.socket(fileno=channel)
        self._gate = Gate(line, wait=wait, more=self._more)
        self._epochs = _Epochs()
        self._observer.probes.append(self._epochs)
        self._observer.start()
        # Started after the observer's, whose hooks are installed when torch comes here.
        self._import_hooks = ImportHooks()
        self._import_hooks.when("torch", self._torch_came)
        self._import_hooks.when("numpy", _seed_numpy)
        _seed_python()

    def _torch_came(self) -> None:
        import torch
        from torch.optim import optimizer

        torch.manual_seed(_SEED)
        backward = torch.autograd.backward

        def seen(tensors: Any, *args: Any, **kwargs: Any) -> None:
            self._witness.loss(tensors)
            backward(tensors, *args, **kwargs)
            self._backwards += 1
            if self._backwards == _FEW and not self._gate.steps:
                self._gate.over("no optimizer of torch was stepped")

        self._patches.put(torch.autograd, "backward", seen)
        optimizer.register_optimizer_step_pre_hook(self._stepping)
        optimizer.register_optimizer_step_post_hook(self._stepped)

    def _stepping(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        if self._witness.is_done or _is_left_out(optimizer):
            return None
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is None:
            self._look(optimizer)
            return None

        def looked() -> Any:  # Lightning's step, LBFGS: gradients come while it steps
            loss = closure()
            self._look(optimizer)
            return loss

        return (args[0], looked, *args[2:]) if len(args) > 1 else args, (
            {**kwargs, "closure": looked} if "closure" in kwargs else kwargs
        )

    def _look(self, optimizer: Any) -> None:
        groups = [group["params"] for group in optimizer.param_groups]
        key = self._optimizers.setdefault(id(optimizer), len(self._optimizers))
        self._witness.gradients(groups, scale=getattr(optimizer, "grad_scale", None), key=key)

    def _stepped(self, optimizer: Any, *_: object) -> None:
        if not _is_left_out(optimizer):
            self._witness.stepped()
        if self._cadence.ends(id(optimizer)):
            self._gate.ended()

    def script_ended(self, error: BaseException | None) -> None:
        """Say that there are no more steps (launch.run calls it)."""
        if isinstance(error, SystemExit) and not error.code:
            error = None
        if error is None:
            self._gate.over("the script ended")
        put_in = [e.technique for e in self._put_in.effects() if e.word == "in effect"]
        said = f", with {', '.join(put_in)} put in" if put_in else ""
        self._gate.over(f"the script ended with {error!r:.300}{said}", outcome="failed")

    def _more(self) -> Mapping[str, Any]:
        """Return what the parent wants to know besides the seconds."""
        effects = {
            effect.technique.partition("(")[0]: (effect.word, effect.how)
            for effect in self._put_in.effects()
        }
        return {
            "effects": effects,
            "peak": device_peak(),
            "epochs": self._epochs.begun,
            "evidence": self._witness.news(),
        }


def _is_left_out(optimizer: Any) -> bool:
    """Whether GradScaler has a fused step leave itself out; others it does not call then."""
    overflowed = getattr(optimizer, "found_inf", None)
    return overflowed is not None and bool(overflowed)


class _Epochs(Probe):
    """Counts how often a loader was started in training; one of the observer's probes."""

    def __init__(self) -> None:
        self._starts: Counter[int] = Counter()

    @property
    def begun(self) -> int:
        """Return how often the loader was started that was started most."""
        return max(self._starts.values(), default=0)

    def on_epoch(self, loader: Any) -> None:
        """Note that a loader is read from its beginning."""
        from torch import is_grad_enabled

        self._starts[id(loader)] += is_grad_enabled()


def _seed_python() -> None:
    import random

    random.seed(_SEED)


def _seed_numpy() -> None:
    numpy = sys.modules["numpy"]
    if hasattr(numpy, "random"):
        numpy.random.seed(_SEED)


def wait() -> None:
    """Wait for the card, if it is used."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def device_peak() -> int | None:
    """Return the card's memory that this process took at most, bytes; None without a card."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return int(torch.cuda.max_memory_reserved())
