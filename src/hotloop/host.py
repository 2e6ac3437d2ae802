"""The script host: stands at PyTorch's doors while somebody's script runs, and keeps what it sees.

It changes nothing in the script. What costs more than a list append happens on few steps only;
everything else is worked out when the script is over.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import threading
import time
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hotloop.core.env import ENV
from hotloop.launch import Stopped
from hotloop.probe.arrivals import Arrivals
from hotloop.probe.built import Built, again, alive, known, unoptimised
from hotloop.probe.calls import plain
from hotloop.probe.card import Card
from hotloop.probe.doors import Doors
from hotloop.probe.frames import framework, here
from hotloop.probe.planned import Planned
from hotloop.probe.readings import Readings
from hotloop.probe.sampler import Sampler
from hotloop.probe.saves import Saved, content, path_of
from hotloop.probe.surroundings import Surroundings
from hotloop.probe.tape import BITS, NUMBERS, Code, Tape
from hotloop.probe.tracked import Configs
from hotloop.probe.watchers import watchers

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["Host", "Limits"]

LEARNED = 6  # updates after which the outermost modules are known
_PASSES = 16  # that are looked at between two updates: each costs about what it looks at
EVERY = 0.25  # seconds between two looks at the run, about
_STABLE_SECONDS, _STABLE_STEPS, _DRIFT = 3.0, 40, 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When observing ends the script early; `full` never does."""

    steps: int | None = None  # optimizer steps
    seconds: float | None = 120.0  # since the first batch or forward pass
    full: bool = False
    probing: bool = True  # look into models and batches as well


class Host:
    """Listens at the doors. One per process."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.tape = Tape()
        self.doors = Doors(self.tape, self)
        self.arrivals = Arrivals()
        self.sampler = Sampler(threading.get_ident(), each=self._tick)
        self.loaders: list[Built] = []
        self.optimizers: list[Built] = []
        self.schedulers: list[Built] = []
        self.scalers: list[Built] = []
        self.roots: list[Built] = []
        self.saves: list[Saved] = []
        self.losses: list[tuple[int, Any]] = []  # (updates before, value or tensor)
        self.stopped: str | None = None
        self.framework = ""  # whose the loop is, known at the first update
        self.surroundings = Surroundings()
        self.configs = Configs()
        self.watchers: list[Any] = [
            self.configs,
            self.surroundings,
            Card(self.doors),
            Readings(self.doors),
            Planned(),
            *(watchers(self) if limits.probing else []),
        ]  # further listeners: probes of models and batches, techniques
        self._first: float | None = None  # seconds, when training began
        self._raised = 0
        self._looking, self._passes = False, 0  # passes looked at since the last update
        self._refresh = 1  # updates after which the facts are taken again
        self._over = False

    # Starting and ending.

    def start(self) -> None:
        """Wait for torch; begin to sample. Nothing is imported."""
        self.tape.note(Code.OWN)
        self.arrivals.when("torch", self._torch_came)
        guarded = self.doors.guarded
        self.arrivals.when("torch._dynamo.callback", lambda: guarded(self._dynamo_came))
        self.arrivals.when("safetensors.torch", lambda: guarded(self._safetensors_came))
        probing = self.limits.probing
        if probing and not self.limits.full:  # what it returns is no plain dict
            self.configs.wait(self.arrivals, self.doors)
        self.surroundings.start(self.doors, output=probing, files=probing)
        self.sampler.start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)
        self.tape.note(Code.OWN_END)

    def finish(self) -> None:
        """Stop looking; the script's own code is over."""
        if not self._over:
            self._over = True
            self.tape.note(Code.END)
            self.sampler.stop()
            self.surroundings.stop()
            self.arrivals.stop()
            self.doors.take_down()

    def _forked(self) -> None:
        """Leave a forked child alone: its parent observes."""
        self._over = True
        self.sampler.give_back()
        self.arrivals.stop()
        self.doors.take_down()

    def _torch_came(self) -> None:
        self.tape.note(Code.OWN)
        if ENV.fault == "doors":
            self.tape.mark = _broken  # what the doors are about to bind
        self.doors.guarded(self.doors.put_up)
        self.doors.guarded(self._tell, "torch_came")
        self.doors.guarded(self.surroundings.arrived, self.doors)
        self.tape.note(Code.OWN_END)

    def _dynamo_came(self) -> None:
        callback = sys.modules["torch._dynamo.callback"]
        callback.on_compile_start(lambda *_: self.tape.note(Code.COMPILE))
        callback.on_compile_end(lambda *_: self.tape.note(Code.COMPILE_END))

    def _safetensors_came(self) -> None:
        from hotloop.probe.door_steps import saving

        module = sys.modules["safetensors.torch"]
        for name in ("save_file", "save_model"):
            self.doors.replace(module, name, saving(self.doors, getattr(module, name)))

    # What the doors tell.

    def built_loader(self, loader: Any) -> None:
        """Remember a DataLoader and where it was built."""
        self.loaders.append(Built(weakref.ref(loader), here()))
        self._tell("built_loader", loader)

    def asked(self, loader: Any) -> None:
        """Pass on that an iterator of a loader is asked for."""
        self._tell("asked", loader)

    def iterating(self, loader: Any, iterator: Any) -> int:
        """Number a loader when it is first used; look for new outermost modules."""
        from hotloop.probe import describe

        if self._first is None:
            self._first = time.perf_counter()
        number, built = known(self.loaders, loader)
        if built.facts is None or built.facts.key != number:
            built.facts = describe.loader(loader, key=number, place=built.place)
            number = again(self.loaders, built)
            self.doors.learning = True  # it may feed other modules
        self._tell("iterating", loader, iterator)
        return number

    def took(self, number: int, batch: Any) -> None:
        """Pass a batch on to the probes."""
        self._tell("took", number, batch)

    def root(self, module: Any) -> int:
        """Number an outermost module."""
        if self._first is None:
            self._first = time.perf_counter()
        number, _ = known(self.roots, module)
        self._tell("root", number, module)
        return number

    def arriving(self, module: Any) -> None:
        """Pass on that an outermost module runs with gradients for the first time."""
        self._tell("arriving", module)

    def passed(self, number: int, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Pass a forward pass on to the probes; see whether somebody trains the module."""
        self._tell("passed", number, module, args, kwargs, output)
        for built, root in alive(self.roots):
            if root is module:
                built.idle, built.called = unoptimised(root, self.optimizers), here()
        self._passes += 1
        if self._passes >= _PASSES:  # an evaluation, or many micro-batches
            self.doors.look = False

    def inside(self, module: Any, args: Any, kwargs: Any) -> None:
        """Pass an inner call on to the probes."""
        self._tell("inside", module, args, kwargs)

    def left(self, module: Any, output: Any) -> None:
        """Pass its end on to the probes."""
        self._tell("left", module, output)

    def loss(self, tensors: Any) -> None:
        """Keep the loss; on a card it is read when the run is over."""
        import torch

        first = tensors[0] if isinstance(tensors, list | tuple) and tensors else tensors
        if isinstance(first, torch.Tensor) and first.numel() == 1 and plain(first):
            seen = first.detach()
            kept = float(seen) if seen.device.type == "cpu" else seen.clone()
            self.losses.append((self.doors.updates, kept))
        self._tell("loss", tensors)

    def built_optimizer(self, optimizer: Any) -> None:
        """Remember an optimizer and where it was built."""
        self.optimizers.append(Built(weakref.ref(optimizer), here()))
        self._tell("built_optimizer", optimizer)

    def updates(self, optimizer: Any) -> int:
        """Number an optimizer that is stepped for the first time."""
        if not self.framework:
            self.framework = framework()
        number, _ = known(self.optimizers, optimizer)
        self._tell("updates", optimizer)
        return number

    def built_scheduler(self, scheduler: Any) -> None:
        """Remember a scheduler and where it was built."""
        self.schedulers.append(Built(weakref.ref(scheduler), here()))

    def built_scaler(self, scaler: Any) -> None:
        """Remember a scaler and where it was built."""
        self.scalers.append(Built(weakref.ref(scaler), here()))

    def saved(self, thing: Any, path: Any, seconds: float) -> None:
        """Remember a save."""
        self.saves.append(
            Saved(
                at=time.perf_counter_ns(),
                seconds=seconds,
                updates=self.doors.updates,
                path=os.path.abspath(path_of(path)),
                place=here(),
                content=content(thing),
            )
        )

    def stepped(self) -> None:
        """Look at the run: at the first steps often, later some times a second."""
        done, now = self.doors.updates, time.perf_counter()
        for built, optimizer in alive(self.optimizers):
            if built.number is not None:
                rate = optimizer.param_groups[0].get("lr")
                if isinstance(rate, float | int):  # a tensor may live on the card
                    built.rates.append((done, float(rate)))
        self._tell("stepped", done)
        if done >= self._refresh:
            self._refresh = 2 * done
            self.refresh()
        self._looking = self.limits.probing and (done < LEARNED or not self._looking)
        self.doors.look, self._passes = self._looking, 0
        if done >= LEARNED:
            self.doors.learning = False
        self.doors.wake = self._next_wake(done, now)
        self.tape.pack()
        if self.tape.full:
            self.doors.failed(RuntimeError("the tape is full"))
        if (why := self._enough(done, now)) is not None:
            self._stop(why)

    def look(self) -> None:
        """Look at what comes until the next update."""
        self._looking, self._passes = True, 0
        self.doors.look, self.doors.wake = True, self.doors.updates + 1

    def refresh(self) -> None:
        """Take the facts of what is alive: a script's objects go when its functions return."""
        from hotloop.probe import describe

        for built, thing in alive(self.loaders):
            if built.number is None:  # the others were described when their use began
                built.facts = describe.loader(thing, key=NUMBERS - 1, place=built.place)
        for built, thing in alive(self.optimizers):
            key = NUMBERS - 1 if built.number is None else built.number
            built.facts = describe.optimizer(thing, key=key, place=built.place)
        for built, thing in alive(self.roots):
            built.facts = describe.model(thing)
            if built.idle:
                places = (built.called,) if built.called else ()
                built.facts = replace(built.facts, unoptimised=built.idle, call_places=places)
        for built, thing in alive(self.schedulers):
            built.facts = describe.scheduler(thing, place=built.place)
            built.at = self.doors.updates
        for built, thing in alive(self.scalers):
            built.facts = describe.scaler(thing, place=built.place)

    # How long.

    def _next_wake(self, done: int, now: float) -> int:
        """Return after how many updates to look again: at once, or in about EVERY seconds."""
        if self._looking:
            return done + 1
        rate = done / max(now - (self._first or now), 1e-3)
        wake = done + max(1, min(1000, int(rate * EVERY)))
        asked = (self.limits.steps or 0) * self._each  # exact: ranks of a group stop together
        return min(wake, asked) if asked > done else wake

    @property
    def _each(self) -> int:
        """The optimizers that are in use."""
        return max(1, sum(built.number is not None for built in self.optimizers))

    def _enough(self, done: int, now: float) -> str | None:
        limits = self.limits
        if limits.full:
            return None
        if limits.steps is not None:
            enough = done >= limits.steps * self._each
            return f"{limits.steps} steps were asked for" if enough else None
        if self._is_stable() and self.saves and self._evaluated:
            return "steady, and one evaluation and one save were seen"
        return self._late(now)

    def _late(self, now: float) -> str | None:
        limit = self.limits.seconds
        if self.limits.full or limit is None or self._first is None or now - self._first < limit:
            return None
        return f"{limit:g} s of training were observed"

    @property
    def _evaluated(self) -> bool:
        return any(mark & 31 in (Code.EVAL, Code.SILENT) for mark in self.tape.marks[-20_000:])

    def _is_stable(self) -> bool:
        """Whether the last steps took as long as those before them."""
        ends = [m >> BITS for m in self.tape.marks[-8_000:] if m & 31 == Code.UPDATE_END]
        if len(ends) < _STABLE_STEPS or (ends[-1] - ends[0]) / 1e9 < _STABLE_SECONDS:
            return False
        each = [end - begin for begin, end in itertools.pairwise(ends)]
        whole, first = statistics.median(each), statistics.median(each[: len(each) // 2])
        return abs(first - whole) <= _DRIFT * whole

    def _stop(self, why: str) -> None:
        self.stopped = why
        self._raised += 1
        if self._raised <= 3:  # something may catch it; the next step raises it again
            raise Stopped(why)

    def _tick(self) -> None:
        """Beside each sample: end a script that makes no steps any more."""
        if self.stopped is None and (why := self._late(time.perf_counter() - 5.0)) is not None:
            self.stopped = why
            _raise_in(self.tape.thread)

    # What helps.

    def _tell(self, what: str, *args: Any) -> None:
        for watcher in self.watchers:
            told: Callable[..., None] | None = getattr(watcher, what, None)
            if told is not None:
                told(*args)


def _broken(mark: int) -> None:
    """Stand for a fault of ours, where a test asks for it."""
    raise RuntimeError(f"planted fault at mark {mark & 31}")


def _raise_in(thread: int) -> None:
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Stopped))
