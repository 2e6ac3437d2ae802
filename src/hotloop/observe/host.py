"""The script host: stands at PyTorch's doors while somebody's script runs, and keeps what it sees.

The script's objects stay as they are; what is put into PyTorch is taken out again. What costs more
than a list append happens on few steps only; all else is worked out when the script is over.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from dataclasses import replace
from typing import Any

from hotloop.core.env import ENV
from hotloop.observe.hooks.event_buffer import NUMBERS, EventBuffer, EventCode
from hotloop.observe.hooks.hooks import Hooks
from hotloop.observe.hooks.install import install
from hotloop.observe.hooks.listeners import Broken, Probes, broken_mark
from hotloop.observe.hooks.live_objects import (
    LiveObject,
    again,
    alive,
    known,
    schedules,
    unoptimised,
)
from hotloop.observe.hooks.stack_frames import framework, here
from hotloop.observe.hooks.stack_sampler import StackSampler
from hotloop.observe.loops.planned_steps import Planned, in_loop
from hotloop.observe.probes.all import watchers
from hotloop.observe.probes.checkpoints import SaveCall, content, frozen_bytes, path_of
from hotloop.observe.probes.cuda import CudaProbe
from hotloop.observe.probes.module_calls import plain
from hotloop.observe.probes.process_state import Surroundings
from hotloop.observe.probes.utilisation import Readings
from hotloop.observe.when_to_stop import StopLimits, WhenToStop
from hotloop.process.import_hooks import ImportHooks
from hotloop.process.internal_frames import hide

__all__ = ["ScriptObserver"]

LEARNED = 6  # updates after which the outermost modules are known
_PASSES = 16  # that are looked at between two updates: each costs about what it looks at


class ScriptObserver:
    """Listens at the doors. One per process."""

    def __init__(self, limits: StopLimits) -> None:
        self.tape = EventBuffer()
        self.stop = WhenToStop(limits, self.tape)
        self.doors = Hooks(self.tape, self)
        self.arrivals = ImportHooks()
        self.sampler = StackSampler(threading.get_ident(), each=self.stop.when_late)
        self.loaders: list[LiveObject] = []
        self.optimizers: list[LiveObject] = []
        self.schedulers: list[LiveObject] = []
        self.scalers: list[LiveObject] = []
        self.roots: list[LiveObject] = []
        self.saves: list[SaveCall] = []
        self.losses: list[tuple[int, Any]] = []  # (updates before, value or tensor)
        self.framework = ""  # whose the loop is, known at the first update
        self.surroundings = Surroundings()
        self.watchers = Probes(
            [
                self.surroundings,
                CudaProbe(self.doors),
                Readings(self.doors),
                *(() if limits.full else (Planned(),)),
                *(watchers(self) if limits.probing else []),
            ]
        )  # further listeners: probes of models and batches, techniques
        self._tell = self.watchers.tell
        self._looking, self._passes = False, 0  # passes looked at since the last update
        self._refresh = 1  # updates after which the facts are taken again
        self._over = False

    # Starting and ending.

    def start(self) -> None:
        """Wait for torch; begin to sample. Nothing is imported."""
        self.tape.note(EventCode.OWN)
        self.arrivals.when("torch", self._torch_came)
        guarded = self.doors.guarded
        self.arrivals.when("torch._dynamo.callback", lambda: guarded(self._dynamo_came))
        self.arrivals.when("safetensors.torch", lambda: guarded(self._safetensors_came))
        probing = self.stop.limits.probing
        self.surroundings.start(self.doors, output=probing, files=probing)
        self.sampler.start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)
        self.tape.note(EventCode.OWN_END)

    def finish(self) -> None:
        """Stop looking; the script's own code is over."""
        if not self._over:
            self._over = True
            self.tape.note(EventCode.END)
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
        self.tape.note(EventCode.OWN)
        if ENV.fault == "doors":
            self.tape.mark = broken_mark  # what the doors are about to bind
        if ENV.fault == "watchers":
            self.watchers[:] = map(Broken, self.watchers)
        self.doors.guarded(install, self.doors)
        self.doors.guarded(self._tell, "torch_came")
        self.doors.guarded(self.surroundings.arrived, self.doors)
        self.tape.note(EventCode.OWN_END)

    def _dynamo_came(self) -> None:
        callback = sys.modules["torch._dynamo.callback"]
        callback.on_compile_start(lambda *_: self.tape.note(EventCode.COMPILE))
        callback.on_compile_end(lambda *_: self.tape.note(EventCode.COMPILE_END))

    def _safetensors_came(self) -> None:
        from hotloop.observe.hooks.training_hooks import saving

        module = sys.modules["safetensors.torch"]
        for name in ("save_file", "save_model"):
            self.doors.replace(module, name, saving(self.doors, getattr(module, name)))

    # What the doors tell.

    def built_loader(self, loader: Any) -> None:
        """Remember a DataLoader and where it was built."""
        self.loaders.append(LiveObject(weakref.ref(loader), here()))
        self._tell("built_loader", loader)

    def asked(self, loader: Any) -> None:
        """Pass on that an iterator of a loader is asked for."""
        self._tell("asked", loader)

    def iterating(self, loader: Any, iterator: Any) -> int:
        """Number a loader when it is first used; look for new outermost modules."""
        from hotloop.observe.hooks import describe

        self._begin()
        number, built = known(self.loaders, loader)
        if built.facts is None or built.facts.key != number:
            built.facts = describe.loader(loader, key=number, place=built.place)
            number = again(self.loaders, built)
            self.doors.learning = True  # it may feed other modules
        self._tell("iterating", loader, iterator)
        self.epoch(loader)
        return number

    def epoch(self, loader: Any) -> None:
        """Pass on that a loader begins an epoch, be it with the iterator that it had before."""
        self._schedules()
        self._tell("epoch", loader)

    def took(self, number: int, batch: Any) -> None:
        """Pass a batch on to the probes."""
        self._tell("took", number, batch)

    def root(self, module: Any) -> int:
        """Number an outermost module."""
        self._begin()
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
        self.optimizers.append(LiveObject(weakref.ref(optimizer), here()))
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
        self.schedulers.append(LiveObject(weakref.ref(scheduler), here(), in_loop=in_loop()))

    def built_scaler(self, scaler: Any) -> None:
        """Remember a scaler and where it was built."""
        self.scalers.append(LiveObject(weakref.ref(scaler), here()))

    def saved(self, thing: Any, path: Any, seconds: float) -> None:
        """Remember a save; what was written to memory only is none."""
        if (written := path_of(path)) is not None:
            self.saves.append(
                SaveCall(
                    at=time.perf_counter_ns(),
                    seconds=seconds,
                    updates=self.doors.updates,
                    path=os.path.abspath(written),
                    place=here(),
                    content=content(thing),
                    frozen_bytes=frozen_bytes(thing, [root for _, root in alive(self.roots)]),
                )
            )

    def stepped(self) -> None:
        """Look at the run: at the first steps often, later some times a second."""
        done, now = self.doors.updates, time.perf_counter()
        self.tape.pack()
        if self.tape.full and self.stop.full_at is None:
            self._observe_no_more(done)
        for built, optimizer in alive(self.optimizers):
            if built.number is not None:
                rate = optimizer.param_groups[0].get("lr")
                if isinstance(rate, float | int):  # a tensor may live on the card
                    built.rates.append((done, float(rate)))
        self._schedules()
        self._tell("stepped", done)
        if done >= self._refresh:
            self._refresh = 2 * done
            self.refresh()
        looks = self.stop.limits.probing and not self.tape.closed
        self._looking = looks and (done < LEARNED or not self._looking)
        self.doors.look, self._passes = self._looking, 0
        if done >= LEARNED:
            self.doors.learning = False
        why = self.stop.enough(done, now, has_saved=bool(self.saves))
        self.doors.wake = done + 1 if self._looking else self.stop.next_look(done, now)
        if why is not None:
            self.stop.stop(why)

    def look(self) -> None:
        """Look at what comes until the next update."""
        self._looking, self._passes = True, 0
        self.doors.look, self.doors.wake = True, self.doors.updates + 1

    def refresh(self) -> None:
        """Take the facts of what is alive: a script's objects go when its functions return."""
        from hotloop.observe.hooks import describe

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
        self._schedules()
        for built, thing in alive(self.scalers):
            built.facts = describe.scaler(thing, place=built.place)

    def _schedules(self, *, begins: bool = False) -> None:
        schedules(self.schedulers, self.optimizers, self.doors.updates, begins=begins)

    def _begin(self) -> None:
        """Note when training began, at the first batch or forward pass."""
        if self.stop.begin():
            self._schedules(begins=True)

    def _observe_no_more(self, done: int) -> None:
        """Close the tape, which is full; a script that may be stopped is."""
        self.stop.full_at = done
        self.tape.close()
        if self.stop.limits.full and not self.doors.needed:
            self.doors.take_down()


hide(globals())
