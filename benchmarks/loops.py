"""The same training by other people's loops and by hotloop's own: what the engine is raced with.

Every loop takes a Course and pulls its batches from it; the course is where its time is taken. All
of them build the same weights, see the same batches and follow the same learning rate.
"""

from __future__ import annotations

import itertools
import logging
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.lr_scheduler import LambdaLR

from benchmarks.turns import NotRun
from hotloop.core.progress import Message, ReadyToTrain
from hotloop.core.storage.files import DISK
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.lr_schedule import schedule
from hotloop.engine.signals import Signals
from hotloop.engine.wall_time import WallTime
from hotloop.jobs.job import assemble, run_record
from hotloop.jobs.request import fresh_request
from hotloop.jobs.run import execute
from hotloop.jobs.train import silent
from hotloop.machine.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch import Tensor, nn
    from torch.optim import Optimizer

    from hotloop.core.plan import Plan
    from hotloop.jobs.job import PreparedRun
    from hotloop.session.batch import Batch, Samples

__all__ = [
    "Course",
    "accelerate",
    "assembly",
    "bare",
    "fabric",
    "hotloop",
    "lightning",
    "plain",
    "trainer",
]

PLAIN_LOG_EVERY = 10  # steps, as hotloop's default


class Course:
    """What is trained; `pull` is called as each batch is taken and may end the run by raising.

    `ready` batches are made beforehand, and go round: the peers' loops get them for nothing.
    """

    def __init__(self, parts: PreparedRun, pull: Callable[[], None], *, ready: int = 0) -> None:
        self.parts, self.pull = parts, pull
        self.settings = parts.request.config.training
        self.model: nn.Module | None = None  # once it is built
        size, samples = parts.feed.batch_size, parts.job.train
        self._ready = [dict(samples.batch(0, n * size, size).tensors) for n in range(ready)]

    def build(self, frozen: torch.dtype | None = None, weights: bool = True) -> nn.Module:
        """Return a new model with the job's initial weights, what is frozen in a dtype."""
        job = self.parts.job
        torch.manual_seed(job.seed)
        low = None if frozen is None or job.frozen is None else job.frozen(frozen, weights)
        self.model = job.model() if low is None else low
        return self.model

    def scheduler(self, optimizer: Optimizer) -> LambdaLR:
        """Return torch's scheduler for the engine's rates."""
        peak = self.settings.learning_rate
        rate = schedule(
            self.settings.schedule,
            peak=peak,
            floor=self.settings.min_learning_rate,
            warmup=self.settings.warmup_steps,
            total=self.parts.steps,
        )
        return LambdaLR(optimizer, lambda step: rate(step) / peak)

    def loss(self, model: nn.Module, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the mean loss of a batch."""
        return self.parts.job.loss(model, tensors)

    def optimizer(self, model: nn.Module) -> Optimizer:
        """Return the job's AdamW, as torch makes it by default."""
        return self.parts.job.optimizer(model)

    def __len__(self) -> int:
        return self.parts.steps

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Yield the batches."""
        for tensors in itertools.islice(itertools.cycle(self._ready), len(self)):
            self.pull()
            yield tensors


def assembly(
    settings: Sequence[str], *, plan: Plan | None = None, recipe: str = "char-lm"
) -> PreparedRun:
    """Return what `hotloop train RECIPE SETTINGS [--plan FILE]` would run."""
    request = replace(fresh_request(recipe, settings), plan=plan)
    return assemble(request, silent, lambda: None)


def hotloop(course: Course, *, must: Sequence[str] = ()) -> None:
    """hotloop's engine as `hotloop train` drives it: journal, guard, phases, schedule and clip.

    Raises NotRun when a technique of `must` is not in effect on this machine.
    """

    def notify(message: Message) -> None:
        if isinstance(message, ReadyToTrain):
            for row in message.effects:
                if row.word != "in effect" and row.technique.partition("(")[0] in must:
                    raise NotRun(f"{row.technique} is {row.word}: {row.how}")

    given = course.parts.feed
    feed = replace(given, samples=_Pulled(given.samples, course.pull, given.batch_size))
    job = course.parts.job
    own = replace(job, model=course.build, frozen=course.build if job.frozen else None)
    parts = replace(course.parts, job=own, feed=feed)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir(Path(folder) / "run")
        run.create(run_record(parts), parts.plan)
        execute(run, parts, wall_time=WallTime(clock), signals=Signals(), notify=notify, disk=DISK)


class _Pulled:
    """A feed's samples that tell when a step's first batch is taken."""

    def __init__(self, samples: Samples, pull: Callable[[], None], step: int) -> None:
        self._samples, self._pull, self._step = samples, pull, step

    def __len__(self) -> int:
        return len(self._samples)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._samples, name)

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        if first % self._step == 0:  # a step is whole windows of an epoch's order
            self._pull()
        return self._samples.batch(epoch, first, count)


def bare(course: Course) -> None:
    """Forward, backward, step and zero_grad of torch's default AdamW; nothing else."""
    model = course.build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=course.settings.learning_rate)
    for tensors in course:
        course.loss(model, tensors).backward()
        optimizer.step()
        optimizer.zero_grad()


def plain(course: Course) -> None:
    """The loop that people write: clip, scheduler and a line of log every 10 steps."""
    model = course.build()
    optimizer = course.optimizer(model)
    scheduler = course.scheduler(optimizer)
    with tempfile.TemporaryFile("w") as log:
        for step, tensors in enumerate(course, 1):
            loss = course.loss(model, tensors)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), course.settings.gradient_clip)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            if step % PLAIN_LOG_EVERY == 0:
                print(step, loss.item(), scheduler.get_last_lr()[0], file=log)


def fabric(course: Course) -> None:
    """Lightning Fabric with clip and scheduler."""
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1)
    model, optimizer = fabric.setup(built := course.build(), course.optimizer(built))
    scheduler = course.scheduler(optimizer)
    for tensors in course:
        fabric.backward(course.loss(model, tensors))
        fabric.clip_gradients(model, optimizer, max_norm=course.settings.gradient_clip)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()


def accelerate(course: Course) -> None:
    """Accelerate with clip and scheduler."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = course.build()
    optimizer = course.optimizer(model)
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, course.scheduler(optimizer))
    for tensors in course:
        accelerator.backward(course.loss(model, tensors))
        accelerator.clip_grad_norm_(model.parameters(), course.settings.gradient_clip)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()


def trainer(course: Course, **arguments: Any) -> None:
    """Hugging Face's Trainer with the job's numbers and its own defaults for the rest."""
    from transformers import PrinterCallback, Trainer, TrainingArguments

    class CourseTrainer(Trainer):
        def get_train_dataloader(self) -> Any:
            return course

        def compute_loss(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Tensor:
            return course.loss(model, inputs)

        def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> LambdaLR:
            del num_training_steps
            self.lr_scheduler = course.scheduler(optimizer or self.optimizer)
            return self.lr_scheduler

    given = course.settings
    with tempfile.TemporaryDirectory() as folder:
        set_to = TrainingArguments(
            output_dir=folder,
            max_steps=len(course),
            use_cpu=True,
            learning_rate=given.learning_rate,
            weight_decay=given.weight_decay,
            adam_beta1=given.betas[0],
            adam_beta2=given.betas[1],
            max_grad_norm=given.gradient_clip,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **arguments,
        )
        loop = CourseTrainer(model=course.build(), args=set_to)
        loop.remove_callback(PrinterCallback)  # hotloop's screen is off as well
        loop.train()


def lightning(course: Course, **arguments: Any) -> None:
    """Lightning's Trainer with its default logger; no bar and no checkpoints."""
    import lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)  # no tips

    class CourseModule(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = course.build()

        def training_step(self, batch: dict[str, Tensor], number: int) -> Tensor:
            del number
            loss = course.loss(self.inner, batch)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            optimizer = course.optimizer(self.inner)
            scheduler = {"scheduler": course.scheduler(optimizer), "interval": "step"}
            return {"optimizer": optimizer, "lr_scheduler": scheduler}

    with tempfile.TemporaryDirectory() as folder:
        lightning.Trainer(
            accelerator="cpu",
            devices=1,
            max_steps=len(course),
            max_epochs=-1,
            gradient_clip_val=course.settings.gradient_clip,
            default_root_dir=folder,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            **arguments,
        ).fit(CourseModule(), course)
