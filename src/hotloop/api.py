"""hotloop as a library: its functions return values and raise HotloopError."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.errors import CheckpointError, DataError, UsageError
from hotloop.core.events import StepTrace, steps
from hotloop.core.storage.files import read_json
from hotloop.core.storage.rundir import RunDir
from hotloop.core.tuning_result import Tuned
from hotloop.engine.checkpoint.folders import StoredCheckpoint, best_of, listing, newest_sound
from hotloop.jobs.request import fresh_request, saved_request
from hotloop.recipes.building.declared_code import named_code
from hotloop.recipes.registry import RECIPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import nn

    from hotloop.core.events import Event
    from hotloop.core.finding import Diagnosis
    from hotloop.core.progress import Notify
    from hotloop.data.tokenising.char_vocabulary import CharVocabulary
    from hotloop.export.pretrained import Exported
    from hotloop.jobs.run import RunResult
    from hotloop.recipes.building.entry import Recipe
    from hotloop.recipes.building.protocols import Predict, Predictions, Sample

__all__ = ["Run", "doctor", "load_run", "train", "tune"]

# With fewer held-out samples the best checkpoint is not the default: the mean of fewer than 30
# cannot be assumed to be normally distributed (the usual rule of statistics texts).
FEW: Final = 30


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run read back from its folder. Its log is read at the first access to its events."""

    path: Path
    record: Mapping[str, Any]  # run.json
    checkpoints: Sequence[StoredCheckpoint]

    @cached_property
    def steps(self) -> Sequence[StepTrace]:
        """Return the optimizer steps. Raises DataError if the log cannot be read."""
        return steps(self._events)

    @cached_property
    def evaluations(self) -> Sequence[Mapping[str, Any]]:
        """Return the validations: step, loss, targets, best, wall (seconds)."""
        return [event for event in self._events if event["kind"] == "eval"]

    @cached_property
    def _events(self) -> Sequence[Event]:
        return RunDir(self.path).events()

    @property
    def config(self) -> Any:
        """Return the configuration with which the run was started."""
        return saved_request(self.record).config

    @property
    def has_characters(self) -> bool:
        """Whether the run was trained on characters, so that it has a `vocabulary`."""
        return RunDir(self.path).vocabulary.is_file()

    def vocabulary(self) -> CharVocabulary:
        """Return the vocabulary of the model. Raises UsageError if the run is not on characters."""
        from hotloop.data.tokenising.char_vocabulary import CharVocabulary

        if not (file := RunDir(self.path).vocabulary).is_file():
            raise UsageError(f"{self.path} is no run on characters, but of {self.record['recipe']}")
        return CharVocabulary.from_json(read_json(file))

    def model(self, which: str | None = None) -> nn.Module:
        """Return the trained model on the CPU in evaluation mode.

        `which` is "best" (lowest validation loss among the sound checkpoints), "last", or a step;
        None leaves the choice to `chosen`. Raises UsageError if there is no such checkpoint, and
        CheckpointError if all are broken or the weights do not fit the model.
        """
        from hotloop.engine.checkpoint.tensors import read_all
        from hotloop.jobs.start_point import refuse_changed

        stored = self.checkpoint(which)
        refuse_changed(RunDir(self.path), stored.path)
        model = self._recipe.load().rebuilt(self.config, RunDir(self.path).kept())
        learned = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        keys = model.load_state_dict(read_all(stored.path), strict=False)
        # Frozen weights are read from their source and are in no checkpoint.
        if wrong := [*keys.unexpected_keys, *sorted(learned & {*keys.missing_keys})]:
            raise CheckpointError(
                f"{stored.path} does not fit the run's own model: {', '.join(wrong[:5])}; was the "
                "folder of the pretrained model changed?"
            )
        built: nn.Module = model.eval()
        return built

    @property
    def _recipe(self) -> Recipe:
        return saved_request(self.record).recipe

    def sample(
        self,
        *,
        prompt: str | None = None,
        suffix: str | None = None,
        samples: int = 1,
        length: int | None = None,
        steps: int | None = None,
        temperature: float | None = None,
        seed: int = 1337,
        which: str | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[str]:
        """Return texts sampled from the trained model: with prompt and suffix, or answers alone.

        `length` is the number of characters between prompt and suffix, or of tokens in an answer.
        `suffix` and `steps` (denoising steps) are for objective=diffusion only. None leaves an
        option to the recipe. `progress` is called with (done, total). Raises UsageError for
        options that the run does not support, or if its recipe generates no text.
        """
        from hotloop.recipes.building.sampling_options import SamplingOptions

        if not (recipe := self._recipe).sample:
            raise UsageError(
                f"a {self.record['recipe']} run writes no text: hotloop predict {self.path} FILE"
            )
        wanted = SamplingOptions(
            prompt=prompt,
            suffix=suffix,
            samples=samples,
            length=length,
            steps=steps,
            temperature=temperature,
            seed=seed,
        )
        draw: Sample = recipe.load(recipe.sample)
        texts = RunDir(self.path).kept()
        return draw(self.config, self.model(which), texts, wanted, progress=progress)

    def predict(
        self,
        path: str | Path | None = None,
        *,
        which: str | None = None,
        progress: Callable[[int, int], None] | None = None,
        baselines: bool = False,
        most: int | None = None,
        declared: str | Path | None = None,
    ) -> Predictions:
        """Return the predictions of the trained model for the rows of a file or folder.

        A classifier predicts labels, a task router routes and answers. Without a `path`, a router
        uses its own held-out rows, at most `most` of each task. `baselines` adds the predictions of
        baselines for the same rows. The code of a user's own task runs only if `declared` names its
        file. Raises UsageError for a run that predicts nothing or whose own task is not named, and
        DataError for rows that cannot be used.
        """
        from hotloop.core.env import ENV

        if not (recipe := self._recipe).predict:
            raise UsageError(
                f"a {self.record['recipe']} run predicts no labels: hotloop sample {self.path}"
            )
        typed = named_code(
            self.record, None if declared is None else str(declared), how="--declared "
        )
        predict: Predict = recipe.load(recipe.predict)
        return predict(
            self.config,
            self.model(which),
            RunDir(self.path).kept(),
            None if path is None else Path(path),
            cache=ENV.cache / "tokens",
            progress=progress,
            baselines=baselines,
            most=most,
            **({} if typed is None else {"declared": typed}),
        )

    def export(self, to: str, out: str | Path, *, which: str | None = None) -> Exported:
        """Write the model in the format of transformers or PEFT, load it with them, and compare.

        `to` is "hf" (a wholly trained model), "merged" (adapters merged into the weights) or "peft"
        (adapters alone). The folder `out` must not exist. Raises UsageError for a run without that
        form, and CheckpointError if the loaded model computes different outputs.
        """
        from hotloop.export.pretrained import export

        texts = RunDir(self.path).kept()
        classes = json.loads(texts.get("classes.json", "{}")).get("classes")
        kept = None if classes is None else {"classes": classes}
        if "tasks.json" in texts:
            kept = json.loads(texts["tasks.json"])
        return export(
            self.model(which),
            str(getattr(self.config.model, "name", "")),
            Path(out),
            to,
            kept=kept,
        )

    def broken(self) -> list[StoredCheckpoint]:
        """Return the checkpoints after the newest sound one. Raises CheckpointError if none is."""
        return newest_sound(RunDir(self.path).checkpoints)[1]

    def checkpoint(self, which: str | None = None) -> StoredCheckpoint:
        """Return a sound checkpoint: "best", "last" or a step; None is the default of `chosen`."""
        return self.chosen(which)[0]

    def chosen(self, which: str | None = None) -> tuple[StoredCheckpoint, str]:
        """Return the sound checkpoint to use, and a description of it in words.

        The default is the best one, or the last one if the validation has so few samples that
        chance decides which is the best. Raises UsageError if there is no such checkpoint.
        """
        folder = RunDir(self.path).checkpoints
        newest, _ = newest_sound(folder)
        if newest is None:
            raise UsageError(f"{self.path} has no checkpoint yet")
        sound = [stored for stored in listing(folder, verify=True) if stored.sound]
        best = best_of(sound, RunDir(self.path).best_step()) or newest
        last = f"the last checkpoint, of step {newest.step:,}"
        if which == "last":
            return newest, last
        judged_on = self.record.get("validation_samples")
        if which is None and isinstance(judged_on, int) and judged_on < FEW and best != newest:
            rows = "1 held-out sample" if judged_on == 1 else f"{judged_on} held-out samples"
            why = f"{rows} cannot tell which is the best: that one would be of step {best.step:,}"
            return newest, f"{last} ({why}; --checkpoint best)"
        if which in (None, "best"):
            return best, f"the best checkpoint, of step {best.step:,}"
        for stored in sound:
            if which in (str(stored.step), stored.path.name):
                return stored, f"the checkpoint of step {stored.step:,}"
        steps = ", ".join(str(stored.step) for stored in sound)
        raise UsageError(f"no sound checkpoint of step {which}; there are best, last, {steps}")


def load_run(path: str | Path) -> Run:
    """Read a run folder. Raises UsageError if it is not one, and DataError if it is damaged."""
    run = RunDir.open(Path(path))
    return Run(path=run.path, record=run.read(), checkpoints=listing(run.checkpoints))


def train(
    recipe: str,
    *,
    out: str | Path | None = None,
    config: str | Path | None = None,
    plan: str | Path | None = None,
    notify: Notify | None = None,
    **settings: object,
) -> RunResult:
    """Train a recipe and return the result.

    Settings are dotted keys with `__` for the dot: train("char-lm", training__max_steps=200).
    `notify` is called with each message of the training. Raises a HotloopError.
    """
    from hotloop.jobs import train as engine

    typed = [f"{key.replace('__', '.')}={_text(value)}" for key, value in settings.items()]
    request = fresh_request(
        recipe,
        typed,
        config_file=Path(config) if config else None,
        plan_file=Path(plan) if plan else None,
    )
    request.refuse_series()
    folder = Path(out) if out else None
    return engine.train(request, out=folder, notify=notify or engine.silent)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def doctor(
    script: str | Path,
    *args: str,
    out: str | Path | None = None,
    options: Sequence[str] = (),
) -> Diagnosis:
    """Run a script under `hotloop doctor` in a process of its own, and return the diagnosis.

    `args` are the arguments of the script; `options` are those of `hotloop doctor` ("--steps",
    "200"). `out` is an unused folder for the page and the facts (default: one in .hotloop). The
    script prints to the output of this process. Raises UsageError if there is no such script, and
    DataError if nothing could be observed.
    """
    from hotloop.diagnosis.script import judge_again, place_named

    if not Path(script).exists():
        raise UsageError(f"there is no script {str(script)!r} in {Path.cwd()}")
    run = RunDir(place_named(Path(script).stem, None if out is None else Path(out)))
    run.refuse_if_used()
    _run("doctor", run.path, *options, str(script), *args)
    if not run.case.exists():
        raise DataError(f"nothing was observed of {script}: it says why above")
    return judge_again(run.path)[1]


def tune(
    what: str | Path,
    *args: str,
    budget: float = 600.0,
    out: str | Path | None = None,
    options: Sequence[str] = (),
) -> Tuned:
    """Search for a faster plan for a script or recipe in a process of its own; return the result.

    `args` are the arguments of the script, or key=value settings of the recipe. `budget` is in
    seconds; the last proof may exceed it. `out` is an unused folder for the results (default: one
    in .hotloop): hotloop run and hotloop train accept its plan.json. `options` are those of
    `hotloop tune` ("--allow", "order"). A notebook shows the result as a table; its `rows` and
    `plan` are values. Ctrl-C, or the interrupt of a notebook, ends the search in order and raises
    KeyboardInterrupt; what was measured is in `out`. Raises UsageError if there is neither such a
    script nor such a recipe, and DataError if nothing could be measured.
    """
    if str(what) not in RECIPES and not Path(what).exists():
        raise UsageError(
            f"there is no script {str(what)!r} in {Path.cwd()}, and no recipe of that name: "
            f"there are {', '.join(RECIPES)}"
        )
    from hotloop.diagnosis.script import place_named

    run = RunDir(place_named(f"tune-{Path(what).stem}", None if out is None else Path(out)))
    run.refuse_if_used()
    _run("tune", run.path, "--budget", f"{budget:g}", *options, str(what), *args)
    if not run.trials.exists():
        raise DataError(f"nothing was measured of {what}: it says why above")
    return Tuned.from_json(read_json(run.trials))


def _run(verb: str, out: Path, *words: str) -> None:
    """Run a hotloop command in a process of its own, whose output becomes that of this process."""
    import sys

    from hotloop.process.shown_child import run_shown

    run_shown([sys.executable, "-m", "hotloop", verb, "--out", str(out), *words])
