"""Tables of what a script built: loaders, models, optimizers, schedulers; and its settings."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from hotloop.core.units import bytes_, count, moment
from hotloop.report.excerpt import where
from hotloop.report.markup import Html, code, join, missing, table
from hotloop.report.sentences import folder_of

if TYPE_CHECKING:
    from hotloop.core.case.case import Case
    from hotloop.core.case.objects import Model, Optimizer
    from hotloop.core.case.steps_and_loaders import Loader
    from hotloop.core.finding import SourceLocation

__all__ = ["built", "settings"]


def built(case: Case) -> Html:
    """Return tables of loaders, models, optimizers and schedulers."""
    here = folder_of(case)
    tables = [
        _loaders(case, here),
        _models(case, here),
        _optimizers(case, here),
        _schedulers(case, here),
    ]
    return join(tables) if any(tables) else missing("Nothing was seen being built.")


def settings(case: Case) -> Html:
    """Return the settings that the code and its configuration request, and the techniques."""
    requested = [(code(name), code(value)) for name, value in case.requested.items()]
    caption = "What the code and its configuration ask for."
    tables = (
        [table(("setting", "asked for"), requested, caption=caption, kind="list")]
        if requested
        else []
    )
    effects = [(code(id), how) for id, how in case.techniques.items()]
    if effects:
        titles = ("technique", "in effect, as it was read back")
        tables.append(table(titles, effects, caption="Put in from outside.", kind="list apart"))
    return join(tables) or missing("Nothing was asked for by name, no technique was put in.")


def _loaders(case: Case, here: str) -> Html:
    if not case.loaders:
        return Html()
    titles = ("loader", "data set", "settings", "median wait", "place")
    rows = [
        (
            f"{loader.key}: {loader.role}",
            join([code(loader.dataset or "unknown"), ", ", _size(loader)]),
            _loader_settings(loader),
            moment(statistics.median(loader.waits)) if loader.waits else "unknown",
            _place(loader.place, here),
        )
        for loader in case.loaders
    ]
    return table(titles, rows, caption="What makes batches.", kind="list places")


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


def _models(case: Case, here: str) -> Html:
    if not case.models:
        return Html()
    titles = ("model", "parameters", "types", "attention", "place")
    rows = [
        (
            join([code(model.name), f", {model.role}"]),
            _parameters(model),
            f"{_types(model)}; on {model.device}",
            ", ".join(" ".join(filter(None, (a.kind, a.kernel))) for a in model.attention)
            or "none",
            _place(model.place, here),
        )
        for model in case.models
    ]
    return table(titles, rows, caption="Models that were called.", kind="list apart places")


def _parameters(model: Model) -> str:
    sentence = (
        f"{count(model.parameters)}, {count(model.trainable)} trainable, {bytes_(model.bytes)}"
    )
    for number, meaning in (
        (model.dead_parameters, "never got a gradient"),
        (model.unused_parameters, "never called"),
    ):
        sentence += f"; {count(number)} {meaning}" if number else ""
    return sentence


def _types(model: Model) -> str:
    weights = ", ".join(model.dtypes) or "unknown"
    return f"weights {weights}; computes in {model.compute or 'unknown'}"


def _optimizers(case: Case, here: str) -> Html:
    if not case.optimizers:
        return Html()
    titles = ("optimizer", "parameters", "groups", "learning rate", "place")
    rows = [
        (
            join([code(optimizer.name), f", {optimizer.steps:,} steps"]),
            count(sum(group.parameters for group in optimizer.groups)),
            _groups(optimizer),
            _rates(optimizer),
            _place(optimizer.place, here),
        )
        for optimizer in case.optimizers
    ]
    return table(titles, rows, caption="Optimizers.", kind="list apart places")


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


def _schedulers(case: Case, here: str) -> Html:
    if not case.schedulers:
        return Html()
    titles = ("scheduler", "calls", "built for", "updates meanwhile", "place")
    rows = [
        (
            code(scheduler.name),
            f"{scheduler.steps:,}",
            "unknown" if scheduler.total is None else f"{scheduler.total:,} calls",
            f"{scheduler.optimizer_steps:,}",
            _place(scheduler.place, here),
        )
        for scheduler in case.schedulers
    ]
    return table(titles, rows, caption="Learning-rate schedulers.", kind="list apart places")


def _place(place: SourceLocation | None, here: str) -> object:
    return None if place is None else code(where(place, here))
