"""Observes an unmodified script through hooks in PyTorch.

The script's objects stay as they are, and the hooks are removed again. Work that costs more than a
list append happens on few steps only; the rest is computed after the script has ended.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from hotloop.core.env import ENV
from hotloop.observe.hooks.event_buffer import NUMBERS, EventBuffer, EventCode
from hotloop.observe.hooks.hooks import Hooks
from hotloop.observe.hooks.live_objects import (
    LiveObject,
    again,
    alive,
    find_left_out,
    known,
    schedules,
    unoptimised,
)
from hotloop.observe.hooks.probe_list import Broken, Probes, broken_mark
from hotloop.observe.hooks.stack_frames import caller_of_model, framework, here
from hotloop.observe.hooks.stack_sampler import StackSampler
from hotloop.observe.hooks.training_hooks import install, saving
from hotloop.observe.ledger.window import NEVER, WindowProbe
from hotloop.observe.loops.coming_parts import ComingParts
from hotloop.observe.loops.planned_steps import Planned, in_loop
from hotloop.observe.probes.batches import BatchProbe
from hotloop.observe.probes.checkpoints import SaveCall, content, frozen_bytes, path_of
from hotloop.observe.probes.cuda import CudaProbe
from hotloop.observe.probes.drawn_rows import DrawProbe
from hotloop.observe.probes.habits import Habits
from hotloop.observe.probes.kept_gradients import KeptGradients
from hotloop.observe.probes.kept_states import KeptStates
from hotloop.observe.probes.mode_layers import ModeLayers
from hotloop.observe.probes.models import Models
from hotloop.observe.probes.module_calls import plain
from hotloop.observe.probes.process_group import ProcessGroupProbe
from hotloop.observe.probes.process_state import Surroundings
from hotloop.observe.probes.resumes import ResumeProbe
from hotloop.observe.probes.shared_graph import SharedGraph
from hotloop.observe.probes.training_order import OrderProbe
from hotloop.observe.probes.twice_updated import TwiceUpdatedProbe
from hotloop.observe.probes.utilisation import Readings
from hotloop.observe.when_to_stop import StopLimits, WhenToStop
from hotloop.process.import_hooks import ImportHooks
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from hotloop.observe.hooks.listener import Probe

__all__ = ["ScriptObserver"]

LEARNED = 6  # updates after which the outermost modules are known
_COMPARED = 8  # updates in which a parameter outside all optimizers must not change
_PASSES = 16  # forward passes examined between two updates: each costs about as much again


class ScriptObserver:
    """Receives the events of the hooks and passes them on to the probes. One per process."""

    def __init__(self, limits: StopLimits) -> None:
        self.events = EventBuffer()
        self.coming = ComingParts()
        self.stop = WhenToStop(limits, self.events, self.coming.waits)
        self.hooks = Hooks(self.events, self)
        self.import_hooks = ImportHooks()
        self.sampler = StackSampler(threading.get_ident(), each=self.stop.when_late)
        self.loaders: list[LiveObject] = []
        self.optimizers: list[LiveObject] = []
        self.schedulers: list[LiveObject] = []
        self.scalers: list[LiveObject] = []
        self.roots: list[LiveObject] = []
        self.saves: list[SaveCall] = []
        self.losses: list[tuple[int, Any]] = []  # (updates before, value or tensor)
        self.loss_roots = set[str]()  # names of the autograd nodes of losses
        self.framework = ""  # the library whose loop it is, known at the first update
        self.surroundings = Surroundings(self.hooks)
        self.window = WindowProbe(self) if limits.probing else None
        self.cuda = CudaProbe(
            self.hooks, is_recording=lambda: self.window is not None and self.window.is_open
        )
        probes: list[Probe] = [self.surroundings, self.cuda, Readings(self.hooks)]
        self.planned = Planned()
        if not limits.full or self.window is not None:
            probes.append(self.planned)
        if not limits.full:
            probes.append(self.coming)
        self._resumes = ResumeProbe(self)
        self.mode_layers = ModeLayers(self)
        if limits.probing:  # batches come first, because models use their repeats
            batches = BatchProbe(self)
            probes += [batches, Models(self, batches.again), Habits(self), ProcessGroupProbe(self)]
            probes += [
                KeptStates(self),
                KeptGradients(self),
                SharedGraph(),
                TwiceUpdatedProbe(self),
                OrderProbe(self),
                self.mode_layers,
                self._resumes,
            ]
            probes.append(DrawProbe(self))
        if self.window is not None:
            probes.append(self.window)
        self.probes = Probes(probes)  # tuning and techniques add their own
        self._looking = False
        self._looks = Counter[int]()  # passes of each outermost module since the last update
        self._refresh = 1  # updates after which the facts are collected again
        self._over = False

    # Starting and ending.

    def start(self) -> None:
        """Wait for the import of torch and begin to sample; import nothing."""
        self.events.note(EventCode.OWN)
        self.import_hooks.when("torch", self._torch_came)
        guarded = self.hooks.guarded
        self.import_hooks.when("torch._dynamo.callback", lambda: guarded(self._dynamo_came))
        self.import_hooks.when("safetensors.torch", lambda: guarded(self._safetensors_came))
        probing = self.stop.limits.probing
        self.surroundings.start(output=probing, files=probing)
        self.sampler.start()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)
        self.events.note(EventCode.OWN_END)

    def finish(self) -> None:
        """End observing, after the script's own code has ended."""
        if not self._over:
            self._over = True
            self.events.note(EventCode.END)
            self.sampler.stop()
            self.surroundings.stop()
            self.import_hooks.stop()
            self.hooks.remove_all()

    def _forked(self) -> None:
        """Do not observe a forked child: its parent observes."""
        self._over = True
        self.sampler.give_back()
        self.import_hooks.stop()
        self.hooks.remove_all()

    def _torch_came(self) -> None:
        self.events.note(EventCode.OWN)
        if ENV.fault == "hooks":
            self.events.mark = broken_mark  # the hooks are about to bind it
        if ENV.fault == "probes":
            self.probes[:] = [cast("Probe", Broken(probe)) for probe in self.probes]
        self.hooks.guarded(install, self.hooks)
        self.hooks.guarded(self.probes.notify, lambda probe: probe.on_torch_imported())
        self.events.note(EventCode.OWN_END)

    def _dynamo_came(self) -> None:
        callback = sys.modules["torch._dynamo.callback"]
        callback.on_compile_start(lambda *_: self.events.note(EventCode.COMPILE))
        callback.on_compile_end(lambda *_: self.events.note(EventCode.COMPILE_END))

    def _safetensors_came(self) -> None:
        module = sys.modules["safetensors.torch"]
        for name in ("save_file", "save_model"):
            self.hooks.replace(module, name, saving(self.hooks, getattr(module, name)))

    # What the hooks tell.

    def on_loader_built(self, loader: Any) -> None:
        """Remember a DataLoader and where it was built."""
        self.loaders.append(LiveObject(weakref.ref(loader), here()))
        self.probes.notify(lambda probe: probe.on_loader_built(loader))

    def on_iterator_requested(self, loader: Any) -> None:
        """Tell the probes that an iterator of a loader is requested."""
        self.probes.notify(lambda probe: probe.on_iterator_requested(loader))

    def on_iterator_created(self, loader: Any, iterator: Any) -> int:
        """Number a loader at its first use; look for new outermost modules."""
        from hotloop.observe.hooks import describe

        self._begin()
        number, built = known(self.loaders, loader)
        if built.facts is None or built.facts.key != number:
            built.facts = describe.loader(loader, key=number, place=built.place)
            number = again(self.loaders, built)
            self.hooks.learning = True  # the loader may feed other modules
        self.probes.notify(lambda probe: probe.on_iterator_created(loader, iterator))
        self.on_epoch(loader)
        return number

    def on_epoch(self, loader: Any) -> None:
        """Tell the probes that a loader begins an epoch, perhaps with its persistent iterator."""
        self._schedules()
        if sys.modules["torch"].is_grad_enabled():
            self.stop.epoch(self.hooks.updates, _length(loader))
        self.probes.notify(lambda probe: probe.on_epoch(loader))

    def on_batch(self, number: int, batch: Any) -> None:
        """Pass a batch on to the probes."""
        self.probes.notify(lambda probe: probe.on_batch(number, batch))

    def on_root_module(self, module: Any) -> int:
        """Number an outermost module."""
        self._begin()
        number, _ = known(self.roots, module)
        self.probes.notify(lambda probe: probe.on_root_module(number, module))
        return number

    def before_first_forward(self, module: Any) -> None:
        """Tell the probes that an outermost module will run with gradients for the first time."""
        self.probes.notify(lambda probe: probe.before_first_forward(module))

    def after_forward(self, number: int, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Pass a forward pass on to the probes; check whether an optimizer updates the module."""
        self._looks[number] += 1
        if self._looks[number] > _PASSES:  # a transform of each sample
            return
        self.probes.notify(lambda probe: probe.after_forward(number, module, args, kwargs, output))
        for built, root in alive(self.roots):
            if root is module:
                built.idle = unoptimised(root, self.optimizers)
                built.called, built.owner = caller_of_model()
        # An evaluation, or many micro batches; data transforms come before them.
        if self._looks[number] == _PASSES and next(module.parameters(), None) is not None:
            self.hooks.look = False

    def on_inner_call(self, module: Any, args: Any, kwargs: Any) -> None:
        """Pass the call of an inner module on to the probes."""
        self.probes.notify(lambda probe: probe.on_inner_call(module, args, kwargs))

    def on_inner_return(self, module: Any, output: Any) -> None:
        """Pass the end of that call on to the probes."""
        self.probes.notify(lambda probe: probe.on_inner_return(module, output))

    def on_backward(self, tensors: Any, adds_up: bool) -> None:
        """Keep the loss; on a GPU it is read after the run."""
        import torch

        first = tensors[0] if isinstance(tensors, list | tuple) and tensors else tensors
        if isinstance(first, torch.Tensor) and first.numel() == 1 and plain(first):
            loss = first.detach()
            value = float(loss) if loss.device.type == "cpu" else loss.clone()
            self.losses.append((self.hooks.updates, value))
            if first.grad_fn is not None:
                self.loss_roots.add(first.grad_fn.name())
        self.probes.notify(lambda probe: probe.on_backward(tensors, adds_up))

    def on_optimizer_built(self, optimizer: Any) -> None:
        """Remember an optimizer and where it was built."""
        self.optimizers.append(LiveObject(weakref.ref(optimizer), here()))
        self.probes.notify(lambda probe: probe.on_optimizer_built(optimizer))

    def on_optimizer_first_step(self, optimizer: Any) -> int:
        """Number an optimizer that is stepped for the first time."""
        if not self.framework:
            self.framework = framework()
        number, _ = known(self.optimizers, optimizer)
        self.probes.notify(lambda probe: probe.on_optimizer_first_step(optimizer))
        return number

    def on_scheduler_built(self, scheduler: Any) -> None:
        """Remember a scheduler and where it was built."""
        self.schedulers.append(LiveObject(weakref.ref(scheduler), here(), in_loop=in_loop()))

    def on_scaler_built(self, scaler: Any) -> None:
        """Remember a scaler and where it was built."""
        self.scalers.append(LiveObject(weakref.ref(scaler), here()))

    def on_save(self, saved: Any, path: Any, seconds: float) -> None:
        """Remember a save, unless it went only to memory."""
        if (file := path_of(path)) is not None:
            call = SaveCall(
                at=time.perf_counter_ns(),
                seconds=seconds,
                updates=self.hooks.updates,
                path=os.path.abspath(file),
                place=here(),
                content=content(saved),
                frozen_bytes=frozen_bytes(saved, [root for _, root in alive(self.roots)]),
            )
            self.saves.append(call)

    def after_step(self) -> None:
        """Look at the run: often at the first steps, later some times a second."""
        updates, now = self.hooks.updates, time.perf_counter()
        self.events.pack()
        if self.events.full and self.stop.full_at is None:
            self._observe_no_more(updates)
        for built, optimizer in alive(self.optimizers):
            if built.number is not None:
                rate = optimizer.param_groups[0].get("lr")
                if isinstance(rate, float | int):  # a tensor may be on the GPU
                    built.rates.append((updates, float(rate)))
        self._schedules()
        if self._looking and self.stop.limits.probing:
            find_left_out(self.roots, self.optimizers, updates, after=_COMPARED)
        self.probes.notify(lambda probe: probe.after_step(updates))
        if updates >= self._refresh:
            self._refresh = 2 * updates
            self.refresh()
        looks = self.stop.limits.probing and not self.events.closed
        window_at = self.window.next_look(updates) if self.window is not None else NEVER
        recorded = self.window is not None and self.window.is_open  # other probes would be, too
        self._looking = looks and not recorded and (updates < LEARNED or not self._looking)
        self.hooks.look, self._looks = self._looking, Counter()
        if updates >= LEARNED:
            self.hooks.learning = False
        has_saved = bool(self.saves) and not self._resumes.is_waiting
        why = self.stop.enough(updates, now, has_saved=has_saved)
        next_look = updates + 1 if self._looking else self.stop.next_look(updates, now)
        self.hooks.wake = min(next_look, window_at)
        if why is not None:
            self.stop.stop(why)

    def look(self) -> None:
        """Examine everything until the next update."""
        self._looking, self._looks = True, Counter()
        self.hooks.look, self.hooks.wake = True, self.hooks.updates + 1

    def refresh(self) -> None:
        """Collect the facts of the objects that still exist; many go when a function returns."""
        from hotloop.observe.hooks import describe

        for built, instance in alive(self.loaders):
            if built.number is None:  # the others were described when their use began
                built.facts = describe.loader(instance, key=NUMBERS - 1, place=built.place)
        for built, instance in alive(self.optimizers):
            key = NUMBERS - 1 if built.number is None else built.number
            built.facts = describe.optimizer(instance, key=key, place=built.place)
        for built, instance in alive(self.roots):
            facts = describe.model(instance)
            built.facts = replace(
                facts,
                name=f"{facts.name} of {built.owner}" if built.owner else facts.name,
                left_out=tuple(built.left_out),
                left_out_parameters=sum(built.left_out.values()),
                unoptimised=built.idle,
                call_places=(built.called,) if built.called else (),
            )
        self._schedules()
        for built, instance in alive(self.scalers):
            built.facts = describe.scaler(instance, place=built.place)

    def _schedules(self, *, begins: bool = False) -> None:
        schedules(self.schedulers, self.optimizers, self.hooks.updates, begins=begins)

    def _begin(self) -> None:
        """Note when training began, at the first batch or forward pass."""
        if self.stop.begin():
            self._schedules(begins=True)

    def _observe_no_more(self, updates: int) -> None:
        """Close the full event buffer; if the script may not be stopped, remove the hooks too."""
        self.stop.full_at = updates
        self.events.close()
        if self.stop.limits.full and not self.hooks.needed:
            self.hooks.remove_all()


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except TypeError:
        return None


hide(globals())
