"""Runs a script under a plan in the process of a trial, a block of steps at a time.

The first argument is the request, as JSON; the rest is the script and its arguments. The script
really runs, so it writes its usual files; the process is ended in the middle of it. Random
generators are seeded, which the script may override, so that every trial trains on the same
numbers.
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
from hotloop.process.preload import saved_seconds
from hotloop.tuning.first_step_record import Witness
from hotloop.tuning.no_dropout import without_dropout
from hotloop.tuning.step_gate import Gate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotloop.core.effect import Effect
    from hotloop.techniques.base import Technique

__all__ = ["by_id", "command", "device_peak", "main", "wait"]

_SEED: Final = 1234
_FEW: Final = 256  # backward passes after which an optimizer step is no longer expected


def command(
    channel: int,
    plan: Plan,
    script: tuple[str, ...],
    *,
    dropout: bool = True,
    nudge: tuple[float, int] | None = None,
    module: str = __name__,
) -> list[str]:
    """Return the command that starts the trial; `script` follows `python` in a usual command.

    Without `dropout` there is none in the trial. `nudge` is the part of each weight by which it
    is changed at random at the start, and a seed. `module` is a seam: its `main` may know
    other techniques.
    """
    request = {"channel": channel, "plan": plan.to_json(), "dropout": dropout, "nudge": nudge}
    return [sys.executable, "-c", run_script.starter(module), json.dumps(request), *script]


def main(argv: list[str], *, known: Sequence[Technique] = techniques.ALL) -> None:
    """Run the script until the parent ends this process; does not return."""
    request = json.loads(argv[0])
    plan = Plan.from_json(request["plan"])
    how = {name: request[name] for name in ("dropout", "nudge")}
    trial = _ScriptTrial(request["channel"], plan, known, **how)
    run_script.run(run_script.ScriptTarget.of(argv[1:]), finished=trial.script_ended)


class _ScriptTrial:
    """Counts steps, records evidence and applies the plan."""

    def __init__(
        self,
        channel: int,
        plan: Plan,
        known: Sequence[Technique],
        *,
        dropout: bool,
        nudge: Sequence[float] | None,
    ) -> None:
        self._dropout, self._nudge = dropout, nudge
        self._observer = ScriptObserver(StopLimits(full=True, probing=False))
        origins = {use.id: "tune" for use in plan.techniques}
        self._applied = AppliedTechniques(plan, origins, known=known)
        self._applied.join(self._observer)
        self._witness, self._cadence = Witness(), Cadence()
        self._patches = Patches()
        self._backwards = 0
        self._optimizers: dict[int, int] = {}  # id -> number, in the order of their first steps
        line = socket.socket(fileno=channel)
        self._gate = Gate(line, wait=wait, more=self._more, saved=saved_seconds)
        self._epochs = _Epochs()
        self._observer.probes.append(self._epochs)
        self._observer.start()
        # Started after the observer, so that its hooks are installed before `_torch_came` runs.
        self._import_hooks = ImportHooks()
        self._import_hooks.when("torch", self._on_torch_imported)
        self._import_hooks.when("numpy", _seed_numpy)
        _seed_python()

    def _on_torch_imported(self) -> None:
        import torch
        from torch.optim import optimizer

        torch.manual_seed(_SEED)
        if not self._dropout:
            without_dropout(self._patches)
        if self._nudge:
            _nudge_weights(*self._nudge)
        backward = torch.autograd.backward

        def recording_backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            self._witness.loss(tensors)
            backward(tensors, *args, **kwargs)
            self._backwards += 1
            if self._backwards == _FEW and not self._gate.steps:
                self._gate.over("no optimizer of torch was stepped")

        self._patches.put(torch.autograd, "backward", recording_backward)
        optimizer.register_optimizer_step_pre_hook(self._before_step)
        optimizer.register_optimizer_step_post_hook(self._after_step)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> Any:
        if self._witness.is_done or _is_left_out(optimizer):
            return None
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is None:
            self._record_gradients(optimizer)
            return None

        def recording_closure() -> Any:  # Lightning and LBFGS compute gradients within the step
            loss = closure()
            self._record_gradients(optimizer)
            return loss

        return (args[0], recording_closure, *args[2:]) if len(args) > 1 else args, (
            {**kwargs, "closure": recording_closure} if "closure" in kwargs else kwargs
        )

    def _record_gradients(self, optimizer: Any) -> None:
        groups = [group["params"] for group in optimizer.param_groups]
        key = self._optimizers.setdefault(id(optimizer), len(self._optimizers))
        self._witness.gradients(groups, scale=getattr(optimizer, "grad_scale", None), key=key)

    def _after_step(self, optimizer: Any, *_: object) -> None:
        if not _is_left_out(optimizer):
            self._witness.stepped()
        if self._cadence.ends(id(optimizer)):
            self._gate.ended()

    def script_ended(self, error: BaseException | None) -> None:
        """Report that there are no more steps; called by `run_script.run`."""
        if isinstance(error, SystemExit) and not error.code:
            error = None
        if error is None:
            self._gate.over("the script ended")
        names = [e.technique for e in self._applied.effects() if e.word == "in effect"]
        suffix = f", with {', '.join(names)} put in" if names else ""
        self._gate.over(f"the script ended with {error!r:.300}{suffix}", outcome="failed")

    def _more(self) -> Mapping[str, Any]:
        """Return the contents of a report besides the seconds of a block."""
        return {
            "effects": by_id(self._applied.effects()),
            "peak": device_peak(),
            "epochs": self._epochs.begun,
            "evidence": self._witness.news(),
        }


def _is_left_out(optimizer: Any) -> bool:
    """Whether a fused optimizer skips this step because GradScaler found an overflow.

    GradScaler does not call other optimizers in that case.
    """
    overflowed = getattr(optimizer, "found_inf", None)
    return overflowed is not None and bool(overflowed)


def _nudge_weights(size: float, seed: float) -> None:
    """Add or take away `size` of each weight, at random, before its module is first called."""
    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    own = torch.Generator().manual_seed(int(seed))  # not the script's
    changed = set[int]()

    def change(module: Any, _: object) -> None:
        for weight in module._parameters.values():
            if weight is None or id(weight) in changed or not weight.requires_grad:
                continue
            changed.add(id(weight))
            with torch.no_grad():
                signs = torch.randint(2, weight.shape, generator=own).to(weight) * 2 - 1
                weight.mul_(1 + size * signs)

    register_module_forward_pre_hook(change)


class _Epochs(Probe):
    """A probe of the observer that counts the starts of each loader in training."""

    def __init__(self) -> None:
        self._starts: Counter[int] = Counter()

    @property
    def begun(self) -> int:
        """Return the highest number of starts of any loader."""
        return max(self._starts.values(), default=0)

    def on_epoch(self, loader: Any) -> None:
        """Count a start of a loader."""
        from torch import is_grad_enabled

        self._starts[id(loader)] += is_grad_enabled()


def _seed_python() -> None:
    import random

    random.seed(_SEED)


def _seed_numpy() -> None:
    """Seed NumPy's generator, and those that a script makes without a seed, as gymnasium does."""
    import random

    numpy = sys.modules["numpy"]
    if hasattr(numpy, "random"):
        numpy.random.seed(_SEED)
        seeds: Any = sys.modules.get("numpy.random.bit_generator")
        if hasattr(seeds, "randbits"):  # it draws the system's entropy (numpy 2.4)
            seeds.randbits = random.Random(_SEED).getrandbits


def by_id(effects: Iterable[Effect]) -> dict[str, tuple[str, str]]:
    """Return the word and the reason of each effect, by the id of its technique."""
    return {e.technique.partition("(")[0]: (e.word, e.how) for e in effects}


def wait() -> None:
    """Wait for the GPU, if it is used."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def device_peak() -> int | None:
    """Return the peak GPU memory of this process in bytes; None without a GPU."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    return int(torch.cuda.max_memory_reserved())
