"""Puts techniques into a running script: each is applied when what it changes has come to its hook.

PROCESS when torch has arrived; LOADER when an iterator is asked for; MODEL and COMPILE at the first
call with gradients of an outermost module that has something to train; OPTIMIZER (and STEP, what
else wants to stand before the loop's first step) at the first step of an optimizer, before it.
Objects are changed in place and stay the script's. A technique that cannot do its work leaves the
script as it is: a run is never stopped for it.
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
# What a technique may raise on an object it did not expect; anything else is a bug of ours.
_FAILS = (RuntimeError, ValueError, TypeError, AttributeError, LookupError, OSError, ImportError)


@dataclass(slots=True, kw_only=True)
class _Row:
    """What came of one technique, on each object it met."""

    use: Use
    technique: Technique
    seen: list[tuple[Word, str]] = field(default_factory=list)
    troubles: list[list[str]] = field(default_factory=list)  # since, for each object

    def effect(self, origin: str) -> Effect:
        """Return the row of the table: in effect where it is so anywhere."""
        words: Sequence[Word] = ("in effect", "refused", "not needed here")
        for word in words:
            said = list(dict.fromkeys(how for what, how in self.seen if what == word))
            if said:
                more = f" (and on {len(said) - 1} more)" if len(said) > 1 else ""
                how = said[0] + more
                troubles = [each for some in self.troubles for each in some]
                if troubles:
                    how += f"; but {troubles[0]}" + f" ({len(troubles)} times)" * (
                        len(troubles) > 1
                    )
                return Effect(technique=str(self.use), origin=origin, word=word, how=how)
        missed = _MISSED.get(self.technique.stage, _NEVER_CALLED)
        return Effect(technique=str(self.use), origin=origin, word="refused", how=missed)


class AppliedTechniques(Probe):
    """A plan in a script's process; one of the observer's probes.

    `origins` maps a technique id to who asked for it. `known` is a seam.
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
        self._asked: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._process: ScriptSession | None = None
        self._fresh: list[tuple[_Row, ScriptSession]] = []  # to be read back after a step
        self._scale: Any = None  # of the loss, where a technique wants one
        self._observer: ScriptObserver | None = None

    def join(self, observer: ScriptObserver) -> None:
        """Be told by `observer` from now on."""
        self._observer = observer
        observer.probes.append(self)
        observer.hooks.needed = True
        observer.hooks.announces_first_forward = bool(self._of(Stage.PROCESS, *_OF_A_MODEL))

    def wanted(self) -> list[tuple[str, str]]:
        """Return each technique as it was asked for, and who did."""
        return [(str(use), self._origins.get(use.id, "plan")) for use in self.plan.techniques]

    # What the host tells.

    def on_torch_imported(self) -> None:
        """Set the switches of the process."""
        self._process = self._session()
        for row in self._of(Stage.PROCESS):
            self._put_in(row, self._process)

    def on_iterator_requested(self, loader: Any) -> None:
        """Change a loader that feeds training, or is read again, before its iterator is built."""
        from torch import is_grad_enabled

        before = self._asked.get(loader, 0)
        self._asked[loader] = before + 1
        if loader not in self._feeds and (is_grad_enabled() or before):
            session = self._session(loader=loader)
            for row in self._of(Stage.LOADER):
                self._put_in(row, session)
            self._feeds[loader] = list(session.loader_changes.values())
        for feed in self._feeds.get(loader, ()):
            feed.on_iterator_requested(loader)

    def on_iterator_created(self, loader: Any, iterator: Any) -> None:
        """Change a new iterator, before it reads."""
        for feed in self._feeds.get(loader, ()):
            feed.on_iterator_created(iterator)

    def before_first_forward(self, module: Any) -> None:
        """Change an outermost module before its first call with gradients."""
        if not any(tensor.requires_grad for tensor in module.parameters()):
            return
        self._again(module)
        session, calls = self._session(model=module), list[Any]()  # the calls that are running
        session.forward = bare = lambda *args, **kwargs: calls[-1](*args, **kwargs)
        for row in self._of(*_OF_A_MODEL):
            self._put_in(row, session)
        hooks = self._hooks
        if session.forward is not bare:
            hooks.around[id(module)] = partial(_called, calls, session.forward)
            weakref.finalize(module, hooks.around.pop, id(module), None).atexit = False
        if session.scale is not None:
            self._scale = session.scale
            hooks.through = self._through

    def on_optimizer_first_step(self, optimizer: Any) -> None:
        """Change an optimizer before its first step."""
        session = self._session(optimizer=optimizer)
        for row in self._of(*_OF_AN_OPTIMIZER):
            self._put_in(row, session)
        if self._scale is not None:
            optimizer.register_step_pre_hook(self._scale.before)
            optimizer.register_step_post_hook(self._scale.after)

    def after_step(self, done: int) -> None:
        """Read back what only a step can show; then the script's objects are let go."""
        del done
        fresh, self._fresh = self._fresh, []
        for row, session in fresh:
            how = row.technique.read_back(session)
            why = session.refused or "it was applied but cannot be read back"
            row.seen.append(("in effect", how) if how else ("refused", why))
        for _, session in fresh:
            session.model = _nothing()  # it stays the script's

    def add_to(self, case: Case) -> Case:
        """Add what is in effect to the case; the switches are read back once more."""
        found = {e.technique.split("(")[0]: e.how for e in self.effects() if e.word == "in effect"}
        return replace(case, techniques={**case.techniques, **found})

    def effects(self) -> list[Effect]:
        """Return the table requested / in effect, as it is now."""
        self.after_step(0)
        rows = []
        for row in self._rows:
            effect = row.effect(self._origins.get(row.use.id, "plan"))
            if row.technique.stage is Stage.PROCESS and effect.word == "in effect":
                effect = self._still(row, effect)
            rows.append(effect)
        return sorted(rows, key=lambda effect: effect.technique)

    # How.

    @property
    def _hooks(self) -> Any:
        assert self._observer is not None
        return self._observer.hooks

    def _of(self, *stages: Stage) -> list[_Row]:
        return [row for row in self._rows if row.technique.stage in stages]

    def _again(self, module: Any) -> None:
        """Set switches that found nothing yet, or that the script has set back since."""
        assert self._process is not None
        self._process.model = module
        for row in self._of(Stage.PROCESS):
            if row.technique.read_back(self._process) is None:
                row.seen.clear()
                self._put_in(row, self._process)
        self._process.model = _nothing()  # the module stays the script's

    def _still(self, row: _Row, effect: Effect) -> Effect:
        assert self._process is not None
        self._process.refused = None
        if row.technique.read_back(self._process) is not None:
            return effect
        how = self._process.refused or "the script itself has set it back"
        return replace(effect, word="refused", how=how)

    def _put_in(self, row: _Row, session: ScriptSession) -> None:
        """Apply one technique to one object, and note what came of it."""
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
            session.undo.pop(technique.id, _leave)()
            row.seen.append(("refused", f"it failed: {type(error).__name__}: {error}"[:300]))
            return
        if technique.late and changed:
            self._fresh.append((row, session))
        elif how is not None:
            row.seen.append(("in effect", how))
        elif changed:
            session.undo.pop(technique.id, _leave)()
            row.seen.append(("refused", "it was applied but cannot be read back"))
        elif session.refused is not None:
            row.seen.append(("refused", session.refused))
        else:
            row.seen.append(("not needed here", session.needless or technique.nothing))

    def _session(self, **at_hand: Any) -> ScriptSession:
        import torch

        model = at_hand.setdefault("model", _nothing())
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
        """Run a backward pass as the technique wants it, if it is one of a plain loss."""
        if any(given is not None for given in (*args[:1], kwargs.get("grad_tensors"))):
            return plain(tensors, *args, **kwargs)
        return self._scale(lambda loss: plain(loss, *args, **kwargs), tensors)


def _nothing() -> Any:
    """Return a module with nothing in it, for techniques that look at one."""
    from torch import nn

    return nn.Module()


def _called(calls: list[Any], forward: Callable[..., Any], run: Any, args: Any, kwargs: Any) -> Any:
    """Call what techniques made of a module's forward pass; innermost is its own, `run`."""
    calls.append(run)
    try:
        return forward(*args, **kwargs)
    finally:
        calls.pop()


def _leave() -> None:
    pass


hide(globals())
