"""The change that each experiment makes to a script, by its name."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from hotloop.observe.experiments.kept_calls import KeptCalls
from hotloop.observe.experiments.kept_memory import KeptMemory
from hotloop.observe.experiments.layouts import ChannelsLast
from hotloop.observe.experiments.other_calls import ConvertedLists, DrawnRows
from hotloop.observe.experiments.precision import Autocast, Float32, Tf32
from hotloop.observe.experiments.rewrites import OtherForm
from hotloop.observe.experiments.same_batch import SameBatch
from hotloop.observe.experiments.unused_gradients import UnusedGradients
from hotloop.observe.experiments.variants import (
    FusedOptimizer,
    NoAnomalyDetection,
    NoDistributionChecks,
    NoLogging,
    ReadyBatches,
    ReadySamples,
    Threads,
    UpdatedRows,
)
from hotloop.observe.experiments.whole_batches import WholeBatches
from hotloop.observe.experiments.worker_process import NoWorkers, WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotloop.core.case.experiment import Experiment
    from hotloop.observe.experiments.variants import Variant
    from hotloop.observe.whatif.batch_replay import Loaders

__all__ = ["named_variant"]

_OF_LOADERS: Final[Mapping[str, Callable[[Loaders], Variant]]] = {
    "ready batches": ReadyBatches,
    "ready samples": ReadySamples,
    "worker process": WorkerProcess,
    "no workers": NoWorkers,
    "whole batches": WholeBatches,
    "batches by hand": functools.partial(WholeBatches, by_hand=True),
    "same batch": SameBatch,
}
_OF_OPTIMIZERS: Final = {
    "fused optimizer": FusedOptimizer,
    "channels last": ChannelsLast,
    "float32": Float32,
    "tables": UpdatedRows,
    "unused gradients": UnusedGradients,
}
_OF_THE_PROCESS: Final = {
    "no anomaly detection": NoAnomalyDetection,
    "no distribution checks": NoDistributionChecks,
    "no logging": NoLogging,
    "kept memory": KeptMemory,
    "tf32": Tf32,
    "autocast": Autocast,
}
_OF_PLACES: Final = {
    "kept calls": KeptCalls,
    "converted lists": ConvertedLists,
    "drawn rows": DrawnRows,
}


def named_variant(
    experiment: Experiment, loaders: Loaders, optimizers: Callable[[], list[Any]]
) -> Variant:
    """Return the change of an experiment, but for those that skip lines.

    `optimizers` returns the optimizers that are alive.
    """
    name = experiment.name
    if experiment.rewrites:
        return OtherForm(experiment.rewrites)
    if name == "threads":
        assert experiment.count is not None
        return Threads(experiment.count)
    if name in _OF_LOADERS:
        return _OF_LOADERS[name](loaders)
    if name in _OF_OPTIMIZERS:
        return _OF_OPTIMIZERS[name](optimizers)
    if name in _OF_PLACES:
        return _OF_PLACES[name](experiment.places)
    return _OF_THE_PROCESS[name]()
