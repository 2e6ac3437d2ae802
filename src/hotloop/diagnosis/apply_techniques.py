"""Applies techniques to a running script, each when the object that it changes reaches its hook.

PROCESS techniques are applied after torch is imported; LOADER techniques when an iterator is
requested; MODEL and COMPILE techniques before the first call, with gradients, of an outermost
module that has trainable parameters; OPTIMIZER and STEP techniques before the first step of an
optimizer. Objects are changed in place and still belong to the script. A technique that fails
leaves the script unchanged: a run is never stopped for it.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hotloop import techniques
from hotloop.core.effect import Effect, Word
from hotloop.observe.hooks.listener import Probe
from hotloop.process.internal_frames import hide
from hotloop.session.session import ScriptSession
from hotloop.techniques.base import Stage
from hotloop.techniques.selection import find

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan, Use
    from hotloop.observe.observer import ScriptObserver
    from hotloop.session.session import LoaderChange
    from hotloop.techniques.base import Technique

__all__ = ["AppliedTechniques"]

_OF_A_MODEL = (Stage.MODEL, Stage.SHARD, Stage.COMPILE)
_OF_AN_OPTIMIZER = (Stage.OPTIMIZER, Stage.STEP)
_MISSED = {
    Stage.PROCESS: "the script did not import torch",
    Stage.LOADER: "no DataLoader was iterated with gradients on, or twice",
    Stage.OPTIMIZER: "no optimizer was stepped",
    Stage.STEP: "no optimizer was stepped",
}
_NEVER_CALLED = "no module with trainable parameters was called with gradients on"
# Errors that a technique may raise on an unexpected object; any other error is a bug of hotloop.
_FAILS = (RuntimeError, ValueError, TypeError, AttributeError, LookupError, OSError, ImportError)


@dataclass(slots=True, kw_only=True)
class _Row:
    """The outcome of one technique on each object that it was applied to."""

    use: Use
    technique: Technique
    seen: list[tuple[Word, str]] = field(default_factory=list)
    troubles: list[list[str]] = field(default_factory=list)  # later ones, for each object

    def effect(self, origin: str) -> Effect:
        """Return the row of the table: "in effect" if the technique is so on any object."""
        words: Sequence[Word] = ("in effect", "refused", "not needed here")
        for word in words:
            reasons = list(dict.fromkeys(how for what, how in self.seen if what == word))
            if reasons:
                more = f" (and on {len(reasons) - 1} more)" if len(reasons) > 1 else ""
                how = reasons[0] + more
                troubles = [
                    trouble for object_troubles in self.troubles for trouble in object_troubles
                ]
                if troubles:
                    how += f"; but {troubles[0]}" + f" ({len(troubles)} times)" * (
                        len(troubles) > 1
                    )
                return Effect(technique=str(self.use), origin=origin, word=word, how=how)
        missed = _MISSED.get(self.technique.stage, _NEVER_CALLED)
        return Effect(technique=str(self.use), origin=origin, word="refused", how=missed)


class AppliedTechniques(Probe):
    """A probe of the observer that applies a plan in a script's process.

    `origins` maps a technique id to the source of the request. `known` is a seam.
    """

    def __init__(
        self,
        plan: Plan,
        origins: Mapping[str, str],
        *,
        hardware: Hardware | None = None,
        known: Sequence[Technique] = techniques.ALL,
    ) -> None:
        self.plan, self._origins, self._hardware = plan, origins, hardware
        used = [_Row(use=use, technique=find(use.id, known)) for use in plan.techniques]
        self._rows = sorted(used, key=lambda row: (row.technique.stage, row.technique.id))
        self._feeds: weakref.WeakKeyDictionary[Any, list[LoaderChange]] = (
            weakref.WeakKeyDictionary()
        )
        self._iterations_begun: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._process: ScriptSession | None = None
        self._fresh: list[tuple[_Row, ScriptSession]] = []  # to be read back after a step
        self._scale: Any = None  # of the loss, if a technique sets one
        self._observer: ScriptObserver | None = None

    def join(self, observer: ScriptObserver) -> None:
        """Add this probe to `observer`."""
        self._observer = observer
        observer.probes.append(self)
        observer.hooks.needed = True
        observer.hooks.announces_first_forward = bool(self._rows_at(Stage.PROCESS, *_OF_A_MODEL))

    def requested(self) -> list[tuple[str, str]]:
        """Return each requested technique and the source of the request."""
        return [(str(use), self._origins.get(use.id, "plan")) for use in self.plan.techniques]

    # Callbacks of the observer.

    def on_torch_imported(self) -> None:
        """Set the switches of the process."""
        self._process = self._session()
        for row in self._rows_at(Stage.PROCESS):
            self._apply(row, self._process)

    def on_iterator_requested(self, loader: Any) -> None:
        """Change a loader before its iterator is built, if it feeds training or is read again."""
        from torch import is_grad_enabled

        before = self._iterations_begun.get(loader, 0)
        self._iterations_begun[loader] = before + 1
        if loader not in self._feeds and (is_grad_enabled() or before):
            session = self._session(loader=loader)
            for row in self._rows_at(Stage.LOADER):
                self._apply(row, session)
            self._feeds[loader] = list(session.loader_changes.values())
        for feed in self._feeds.get(loader, ()):
            feed.on_iterator_requested(loader)

    def on_iterator_created(self, loader: Any, iterator: Any) -> None:
        """Change a new iterator before it reads."""
        for feed in self._feeds.get(loader, ()):
            feed.on_iterator_created(iterator)

    def before_first_forward(self, module: Any) -> None:
        """Change an outermost module before its first call with gradients."""
        if not any(tensor.requires_grad for tensor in module.parameters()):
            return
        self._reapply_switches(module)
        session, calls = self._session(model=module), list[Any]()  # the calls that are running
        session.forward = bare = lambda *args, **kwargs: calls[-1](*args, **kwargs)
        for row in self._rows_at(*_OF_A_MODEL):
            self._apply(row, session)
        hooks = self._hooks
        if session.forward is not bare:
            hooks.around[id(module)] = partial(_call_wrapped, calls, session.forward)
            weakref.finalize(module, hooks.around.pop, id(module), None).atexit = False
        if session.scale is not None:
            self._scale = session.scale
            hooks.through = self._through

    def on_optimizer_first_step(self, optimizer: Any) -> None:
        """Change an optimizer before its first step."""
        session = self._session(optimizer=optimizer)
        for row in self._rows_at(*_OF_AN_OPTIMIZER):
            self._apply(row, session)
        if self._scale is not None:
            optimizer.register_step_pre_hook(self._scale.before)
            optimizer.register_step_post_hook(self._scale.after)

    def after_step(self, done: int) -> None:
        """Read back the techniques that need a step, then release the script's objects."""
        del done
        fresh, self._fresh = self._fresh, []
        for row, session in fresh:
            how = row.technique.read_back(session)
            why = session.refused or "it was applied but cannot be read back"
            row.seen.append(("in effect", how) if how else ("refused", why))
        for _, session in fresh:
            session.model = _empty_module()  # release the script's module

    def add_to(self, case: Case) -> Case:
        """Add the techniques in effect to the case, after reading the switches back again."""
        in_effect = {
            e.technique.split("(")[0]: e.how for e in self.effects() if e.word == "in effect"
        }
        return replace(case, techniques={**case.techniques, **in_effect})

    def effects(self) -> list[Effect]:
        """Return the current table of requested techniques and their effects."""
        self.after_step(0)
        rows = []
        for row in self._rows:
            effect = row.effect(self._origins.get(row.use.id, "plan"))
            if row.technique.stage is Stage.PROCESS and effect.word == "in effect":
                effect = self._checked_again(row, effect)
            rows.append(effect)
        return sorted(rows, key=lambda effect: effect.technique)

    # Applying and reading back.

    @property
    def _hooks(self) -> Any:
        assert self._observer is not None
        return self._observer.hooks

    def _rows_at(self, *stages: Stage) -> list[_Row]:
        return [row for row in self._rows if row.technique.stage in stages]

    def _reapply_switches(self, module: Any) -> None:
        """Set the switches that have no effect yet, or that the script has since reset."""
        assert self._process is not None
        self._process.model = module
        for row in self._rows_at(Stage.PROCESS):
            if not row.technique.late and row.technique.read_back(self._process) is None:
                row.seen.clear()
                self._apply(row, self._process)
        self._process.model = _empty_module()  # release the script's module

    def _checked_again(self, row: _Row, effect: Effect) -> Effect:
        assert self._process is not None
        self._process.refused = None
        if row.technique.read_back(self._process) is not None:
            return effect
        how = self._process.refused or "the script itself has set it back"
        return replace(effect, word="refused", how=how)

    def _apply(self, row: _Row, session: ScriptSession) -> None:
        """Apply one technique to one object and record the outcome."""
        technique = row.technique
        session.refused = session.needless = None
        row.troubles.append(session.troubles[technique.id])
        if (why := technique.blocked(session.hardware, self.plan)) is not None:
            row.seen.append(("refused", why))
            return
        try:
            changed = technique.apply(session, **dict(row.use.choice))
            how = technique.read_back(session) if changed and not technique.late else None
        except _FAILS as error:
            session.undo.pop(technique.id, _no_undo)()
            row.seen.append(("refused", f"it failed: {type(error).__name__}: {error}"[:300]))
            return
        if technique.late and changed:
            self._fresh.append((row, session))
        elif how is not None:
            row.seen.append(("in effect", how))
        elif changed:
            session.undo.pop(technique.id, _no_undo)()
            row.seen.append(("refused", "it was applied but cannot be read back"))
        elif session.refused is not None:
            row.seen.append(("refused", session.refused))
        else:
            row.seen.append(("not needed here", session.needless or technique.nothing))

    def _session(self, **at_hand: Any) -> ScriptSession:
        import torch

        model = at_hand.setdefault("model", _empty_module())
        first = next(iter(model.parameters()), None)
        if first is None and (optimizer := at_hand.get("optimizer")) is not None:
            first = next(iter(optimizer.param_groups[0]["params"]), None)
        hardware = self._machine()
        device = torch.device(hardware.device) if first is None else first.device
        return ScriptSession(
            hardware=hardware,
            device=device,
            forward=model,
            scale=self._scale,
            **at_hand,
        )

    def _machine(self) -> Hardware:
        if self._hardware is None:
            from hotloop.machine.detect import detect

            self._hardware = detect()
        return self._hardware

    def _through(self, plain: Any, tensors: Any, args: Any, kwargs: Any) -> Any:
        """Run a backward pass through the loss scale, unless the script passes gradients."""
        if any(argument is not None for argument in (*args[:1], kwargs.get("grad_tensors"))):
            return plain(tensors, *args, **kwargs)
        return self._scale(lambda loss: plain(loss, *args, **kwargs), tensors)


def _empty_module() -> Any:
    """Return an empty module, for techniques that inspect a module."""
    from torch import nn

    return nn.Module()


def _call_wrapped(
    calls: list[Any], forward: Callable[..., Any], run: Any, args: Any, kwargs: Any
) -> Any:
    """Call a module's forward pass as wrapped by techniques around `run`, the original one."""
    calls.append(run)
    try:
        return forward(*args, **kwargs)
    finally:
        calls.pop()


def _no_undo() -> None:
    pass


hide(globals())
