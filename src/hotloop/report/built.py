"""Tables of what a script built: loaders, models, optimizers, schedulers; and its settings."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from hotloop.core.units import bytes_, count, moment
from hotloop.report.excerpt import where
from hotloop.report.markup import Html, code, join, missing, table
from hotloop.report.sentences import folder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.case.objects import Model, Optimizer, Scheduler
    from hotloop.core.case.steps_and_loaders import Loader

__all__ = ["built", "settings"]


def built(case: Case) -> Html:
    """Return tables of loaders, models, optimizers and schedulers."""
    here = folder_of(case)
    tables = (
        _table("loader, data set, settings, median wait", "What makes batches.", "list",
               case.loaders, _loader, here),
        _table("model, parameters, types, attention", "Models that were called.", "list apart",
               case.models, _model, here),
        _table("optimizer, parameters, groups, learning rate", "Optimizers.", "list apart",
               case.optimizers, _optimizer, here),
        _table("scheduler, calls, built for, updates meanwhile", "Learning-rate schedulers.",
               "list apart", case.schedulers, _scheduler, here),
    )  # fmt: skip
    return join(tables) or missing("Nothing was seen being built.")


def _table(
    titles: str,
    caption: str,
    kind: str,
    objects: Sequence[Loader | Model | Optimizer | Scheduler],
    row: Callable[[Any], tuple[object, ...]],
    here: str,
) -> Html:
    """Return a table with a row for each object and its place; empty without objects."""
    if not objects:
        return Html()
    rows = [
        (*row(built), None if built.place is None else code(where(built.place, here)))
        for built in objects
    ]
    return table((*titles.split(", "), "place"), rows, caption=caption, kind=f"{kind} places")


def settings(case: Case) -> Html:
    """Return the settings that the code and its configuration request, and the techniques."""
    requested = [(code(name), code(value)) for name, value in case.requested.items()]
    caption, tables = "What the code and its configuration ask for.", []
    if requested:
        tables.append(table(("setting", "asked for"), requested, caption=caption, kind="list"))
    effects = [(code(id), how) for id, how in case.techniques.items()]
    if effects:
        titles = ("technique", "in effect, as it was read back")
        tables.append(table(titles, effects, caption="Put in from outside.", kind="list apart"))
    return join(tables) or missing("Nothing was asked for by name, no technique was put in.")


def _loader(loader: Loader) -> tuple[object, ...]:
    return (
        f"{loader.key}: {loader.role}",
        join([code(loader.dataset or "unknown"), ", ", _size(loader)]),
        _loader_settings(loader),
        moment(statistics.median(loader.waits)) if loader.waits else "unknown",
    )


def _size(loader: Loader) -> str:
    counts = ((loader.length, "samples"), (loader.batches, "batches"))
    lengths = [f"{number:,} {unit}" for number, unit in counts if number is not None]
    return ", ".join(lengths) or "unknown"


def _loader_settings(loader: Loader) -> str:
    size = "unknown" if loader.batch_size is None else f"{loader.batch_size:,}"
    settings = [f"batch size {size}", f"{loader.workers} worker{'s' * (loader.workers != 1)}"]
    settings += [f"collate {loader.collate}"]
    settings += [loader.sampler] if loader.sampler else []
    settings += [word for word, is_on in (("pinned", loader.pin_memory),
                                      ("persistent", loader.persistent),
                                      ("drop_last", loader.drop_last)) if is_on]  # fmt: skip
    return ", ".join(settings)


def _model(model: Model) -> tuple[object, ...]:
    return (
        join([code(model.name), f", {model.role}"]),
        _parameters(model),
        f"{_types(model)}; on {model.device}",
        ", ".join(" ".join(filter(None, (a.kind, a.kernel))) for a in model.attention) or "none",
    )


def _parameters(model: Model) -> str:
    sentence = f"{count(model.parameters)}, {count(model.trainable)} trainable, "
    sentence += bytes_(model.bytes)
    for number, meaning in (
        (model.dead_parameters, "never got a gradient"),
        (model.unused_parameters, "never called"),
    ):
        sentence += f"; {count(number)} {meaning}" if number else ""
    return sentence


def _types(model: Model) -> str:
    weights = ", ".join(model.dtypes) or "unknown"
    return f"weights {weights}; computes in {model.compute or 'unknown'}"


def _optimizer(optimizer: Optimizer) -> tuple[object, ...]:
    return (
        join([code(optimizer.name), f", {optimizer.steps:,} steps"]),
        count(sum(group.parameters for group in optimizer.groups)),
        _groups(optimizer),
        _rates(optimizer),
    )


def _groups(optimizer: Optimizer) -> str:
    groups, tensors = len(optimizer.groups), sum(g.tensors for g in optimizer.groups)
    words = [f"{groups:,} group{'s' * (groups != 1)}", f"{tensors:,} tensors"]
    for name in ("fused", "foreach"):
        values = {getattr(group, name) for group in optimizer.groups} - {None}
        words += [f"{name} {', '.join(sorted(map(str, values)))}"] if values else []
    return ", ".join(words)


def _rates(optimizer: Optimizer) -> str:
    rates = [rate for _, rate in optimizer.rates]
    if not rates:
        return "unknown"
    if len({*rates}) == 1:
        return f"{rates[0]:.3g}, all the time"
    return f"{rates[0]:.3g} at first, {rates[-1]:.3g} at last, {max(rates):.3g} at most"


def _scheduler(scheduler: Scheduler) -> tuple[object, ...]:
    return (
        code(scheduler.name),
        f"{scheduler.steps:,}",
        "unknown" if scheduler.total is None else f"{scheduler.total:,} calls",
        f"{scheduler.optimizer_steps:,}",
    )
