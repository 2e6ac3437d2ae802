"""The Case that rules judge: all facts of one run, as one value that JSON can hold.

Format history of case.json: schema 1 (2026-11); `planned`, `ledger`, and of the process
`failed_at`, `states_aliased`, `exchanging`, `machine_cores`, `reference`, of the steps
`repeated_graph`, `order`, `resumes` and `kept_gradients` (2026-12, additional). The first files had
more fields, which are skipped when they are read: `read` of a configuration, with keys that a
tracked dict had noted; `kind` of a loader, `outputs_unused` of a model and `step_places` of a
schedule, which were never filled; and `shared_graph` of the steps, in place of which
`repeated_graph` came. `gpu` of the steps was called `card`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hotloop.core.case.environment import Ceiling, Config, Operator, ProcessFacts, Raised
from hotloop.core.case.experiment import Experiment
from hotloop.core.case.ledger import Ledger
from hotloop.core.case.objects import Model, Optimizer, Scaler, Scheduler, TwiceUpdated
from hotloop.core.case.planned_run import PlannedRun
from hotloop.core.case.steps_and_loaders import (
    BatchFacts,
    EvaluationSpan,
    Loader,
    Resume,
    Save,
    Stack,
    Steps,
    Sync,
    TrainingOrder,
)
from hotloop.core.codec import from_json, to_json
from hotloop.core.errors import DataError
from hotloop.core.hardware import Hardware
from hotloop.core.measurement import Measurement

__all__ = ["IN_STEP", "ONCE", "OWN_FAULT", "SCHEMA", "TRAIN", "Case"]

SCHEMA = 1
_GONE = {
    "configs": "read",
    "loaders": "kind",
    "models": "outputs_unused",
    "schedulers": "step_places",
}
TRAIN = "hotloop train"  # prefix of `script` if the record of such a run is judged
ONCE = ("start", "import", "data load", "compile", "after training")
IN_STEP = (
    "data wait",
    "prepare",
    "host to device",
    "forward",
    "backward",
    "exchange",
    "optimizer",
    "host waits",
    "after step",
)

OWN_FAULT = "what came after a fault of hotloop's own"  # in Case.not_checked


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run, observed or planned. Facts that were not collected are empty or None."""

    hardware: Hardware
    script: str  # absolute path, or the name of the module
    wall: Mapping[str, float]  # seconds by row of observed.ROWS; they sum to the observed time
    steps: Steps
    arguments: tuple[str, ...] = ()  # the script's own
    framework: Literal["plain", "transformers", "lightning", "accelerate", "fabric"] = "plain"
    stopped: str | None = None  # why it ended early; None: it ran to its end
    raised: Raised | None = None  # the exception or exit code that ended it early
    planned_steps: int | None = None  # optimizer steps of the whole run, if known
    epochs: int = 0  # started, of the training loader
    stacks: tuple[Stack, ...] = ()
    loaders: tuple[Loader, ...] = ()
    batches: tuple[BatchFacts, ...] = ()
    models: tuple[Model, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()
    twice_updated: tuple[TwiceUpdated, ...] = ()
    schedulers: tuple[Scheduler, ...] = ()
    scalers: tuple[Scaler, ...] = ()
    evaluations: tuple[EvaluationSpan, ...] = ()
    order: TrainingOrder | None = None  # of the training rows; None: random, or not seen
    saves: tuple[Save, ...] = ()
    resumes: tuple[Resume, ...] = ()
    syncs: tuple[Sync, ...] = ()
    configs: tuple[Config, ...] = ()
    process: ProcessFacts = field(default_factory=ProcessFacts)
    sources: Mapping[str, str] = field(default_factory=dict)  # path -> text, own modules
    # name -> values in the order of time: gpu_utilisation (0..1), gpu_power_w, gpu_power_limit_w,
    # gpu_clock_mhz, gpu_max_clock_mhz, gpu_temperature_c, gpu_memory_bytes, gpu_throttle (names),
    # pcie_generation, pcie_generation_max, pcie_width, pcie_width_max, gpu_other_processes,
    # cpu_cores, rss_bytes, allocated_bytes, reserved_bytes, read_bytes_per_s
    readings: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    throttle_reasons: tuple[str, ...] = ()
    operators: tuple[Operator, ...] = ()  # of --profile
    profiled: bool = False
    ceilings: tuple[Ceiling, ...] = ()  # of --ceilings
    techniques: Mapping[str, str] = field(default_factory=dict)  # id -> read back, in effect
    requested: Mapping[str, str] = field(default_factory=dict)  # what code and configs request
    not_checked: tuple[str, ...] = ()  # a sentence each, with the reason
    own_time: float = 0.0  # hotloop's own seconds, in no row
    ledger: Ledger | None = None  # what each second was for; None: not observed step by step
    experiments: tuple[Experiment, ...] = ()  # steps of the script with one cost taken away
    experiments_time: float = 0.0  # seconds for all of them, after the observation
    planned: PlannedRun | None = None  # of a run that has not been made yet; None: it was observed

    @property
    def seconds(self) -> float:
        """Return the observed wall time without hotloop's own time."""
        return sum(self.wall.values())

    def row(self, name: str) -> float:
        """Return the seconds of a row."""
        return self.wall.get(name, 0.0)

    @property
    def judged(self) -> float:
        """Return the seconds that shares refer to.

        For a run that was stopped early they exclude the start, which would look too large.
        """
        once = sum(map(self.row, ONCE)) if self.stopped else 0.0
        return self.seconds - once if self.seconds - once > 0 else self.seconds

    def share(self, *rows: str) -> float:
        """Return the part of `judged` that `rows` took, 0..1."""
        return self.part(sum(map(self.row, rows)))

    def computing(self, *rows: str) -> float:
        """Return the seconds that `rows` took, and on a GPU the host's waits for what it launched.

        There a row ends when its kernels are launched, and the time that they take is where the
        host waits next.
        """
        waited = self.row("host waits") if self.on_gpu else 0.0
        return sum(map(self.row, rows)) + waited

    def part(self, seconds: float) -> float:
        """Return `seconds` as a part of `judged`, 0..1."""
        return seconds / self.judged if self.judged else 0.0

    def per_step(self, seconds: float) -> float | None:
        """Return seconds of the whole run as seconds of one optimizer step."""
        return seconds / self.steps.count if self.steps.count else None

    def ceiling_without(self, seconds: float) -> float | None:
        """Return the largest speed-up if `seconds` of the run were removed; None if all were."""
        remaining = self.judged - seconds
        return self.judged / remaining if remaining > 0 else None

    @property
    def step_time(self) -> Measurement | None:
        """Return the time from step to step in seconds; None if no step was timed."""
        return Measurement(unit="s", readings=self.steps.wall) if self.steps.wall else None

    @property
    def has_full_rows(self) -> bool:
        """Whether rows of tokens were looked at, and none of them ends in padding.

        Positions without a loss, as the visible ones of a masked language model, are no padding.
        """
        batches = [batch for batch in self.batches if batch.role == "train" and batch.lengths]
        return bool(batches) and all(batch.padding == 0 for batch in batches)

    @property
    def seen_once(self) -> frozenset[str]:
        """Rows of the ledger whose interval is unknown: the run was stopped after the first one."""
        if self.stopped is None:
            return frozenset()
        evaluated = {span.step for span in self.evaluations}
        counts = {"evaluating": len(evaluated), "saving": len(self.saves)}
        return frozenset(row for row, count in counts.items() if count == 1)

    @property
    def training_loaders(self) -> tuple[Loader, ...]:
        """Return the loaders that feed training."""
        return tuple(loader for loader in self.loaders if loader.role == "train")

    @property
    def by_hotloop(self) -> bool:
        """Whether this is the record of a run of hotloop train: the loop is not the user's."""
        return self.script.startswith(f"{TRAIN} ")

    @property
    def classes(self) -> frozenset[str]:
        """Return the classes of the models' modules, but torch's own; empty if unknown."""
        return frozenset(name for model in self.models for name in model.classes)

    @property
    def on_gpu(self) -> bool:
        """Whether it ran on a CUDA GPU."""
        return self.hardware.device == "cuda" and any(
            model.device.startswith("cuda") for model in self.models
        )

    @property
    def total_steps(self) -> int | None:
        """Return the steps of the whole run: counted if it came to its end, else as planned."""
        return self.steps.count if self.stopped is None else self.planned_steps

    def to_json(self) -> dict[str, object]:
        """Return case.json."""
        return to_json(self, schema=SCHEMA)

    @classmethod
    def from_json(cls, raw: Mapping[str, object]) -> "Case":
        """Read case.json. Raises DataError if it has another schema or is no case."""
        if raw.get("schema") != SCHEMA:
            raise DataError(
                f"the case has schema {raw.get('schema')!r}, this version of hotloop reads {SCHEMA}"
            )
        fields = {key: value for key, value in raw.items() if key != "schema"}
        if isinstance(steps := fields.get("steps"), dict):
            kept = {key: value for key, value in steps.items() if key != "shared_graph"}
            fields["steps"] = {("gpu" if k == "card" else k): v for k, v in kept.items()}
        for part, removed in _GONE.items():
            if isinstance(entries := fields.get(part), list):
                fields[part] = [_without(entry, removed) for entry in entries]
        return from_json(cls, fields)


def _without(entry: object, removed: str) -> object:
    return {k: v for k, v in entry.items() if k != removed} if isinstance(entry, dict) else entry
