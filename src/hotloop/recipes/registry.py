"""The recipes by name. Needs no torch: a misspelt key is answered before anything heavy loads."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hotloop.config.derive_plan import auto_layer
from hotloop.core.errors import UsageError, did_you_mean
from hotloop.recipes import char_lm, pair_classifier, sft, task_router
from hotloop.recipes.char_lm.config import idle_char_lm, one_set, resolve_char_lm, set_labels
from hotloop.recipes.pair_classifier.config import (
    fold_names,
    idle_pair_classifier,
    one_fold,
    resolve_pair_classifier,
)
from hotloop.recipes.pair_classifier.presets import auto_pair_classifier
from hotloop.recipes.sft.chat_config import resolve_chat_sft
from hotloop.recipes.sft.config import asked_of, idle_sft
from hotloop.recipes.sft.experts_config import resolve_expert_sft
from hotloop.recipes.sft.presets import auto_sft
from hotloop.recipes.task_router.config import (
    after_phases,
    idle_task_router,
    one_phase,
    phases,
    resolve_task_router,
)
from hotloop.recipes.task_router.presets import auto_task_router

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from hotloop.config.derive_plan import RequestedTechnique
    from hotloop.config.layers import SettingsLayer
    from hotloop.config.resolve import Resolver
    from hotloop.core.case.planned_run import DataKind
    from hotloop.core.hardware import Hardware

__all__ = ["RECIPES", "Recipe", "find"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A recipe's configuration side, and where the rest of it is."""

    name: str
    summary: str
    resolve: Resolver
    idle: Callable[..., dict[str, str]]  # why a setting that was given has no effect
    auto: Callable[[Hardware], SettingsLayer]  # what preset=auto sets
    # The attention asked for, and over how many tokens; None: the model has its own.
    attends: Callable[[Any], tuple[str, int] | None] = lambda config: None
    # Runs it asks for: name -> in words; none: one run.
    series: Callable[[Any], Mapping[str, str]] = lambda config: {}
    member: Callable[[Any, str], Any] = lambda config, name: config  # of one run of a series
    # The same, of a run that goes on from others in the series' folder.
    after: Callable[[Any, Path], Any] = lambda config, out: config
    one: str = ""  # the setting that names one, as typed
    is_chain: bool = False  # each run of the series goes on from those before it
    # Techniques that settings ask for, by id.
    asked: Callable[[Any], Mapping[str, RequestedTechnique]] = lambda config: {}
    paths: tuple[str, ...] = ()  # settings of its own that name a file or folder
    data: DataKind | None  # what its rows are, for a preflight; None: of another kind
    package: str  # its folder
    # Where in the package the rest finds what belongs to this recipe, as "module" or "module:name".
    # Empty: it has none.
    module: str = "recipe"  # has prepare_data, build and rebuilt
    ladder: str  # a building.ladder.Ladder, for hotloop bench
    sample: str = ""  # draws texts, for hotloop sample: as building.protocols.Sample
    predicts: str = ""  # what, for the help of hotloop predict
    predict: str = ""  # says something of rows, for hotloop predict: as building.protocols.Predict
    section: str = ""  # report.facts.Facts -> Html: of the page of a run
    manifests: str = ""  # key=value arguments -> building.protocols.Manifest and folder of each run

    def load(self, path: str = "") -> Any:
        """Import and return what a field names; without `path` the torch side."""
        module, _, name = (path or self.module).partition(":")
        found = importlib.import_module(f"{self.package}.{module}")
        return getattr(found, name) if name else found


RECIPES = {
    "char-lm": Recipe(
        name="char-lm",
        summary="character-level language model on text files",
        resolve=resolve_char_lm,
        idle=idle_char_lm,
        attends=lambda config: (config.model.attention, config.model.context),
        auto=auto_layer,
        series=set_labels,
        member=one_set,
        data="characters",
        package=char_lm.__name__,
        ladder="ladder:LADDER",
        sample="sampling:sample",
    ),
    "pair-classifier": Recipe(
        name="pair-classifier",
        summary="labels of texts or pairs of texts, by a pretrained model",
        resolve=resolve_pair_classifier,
        idle=idle_pair_classifier,
        auto=auto_pair_classifier,
        series=fold_names,
        member=one_fold,
        data="labels",
        package=pair_classifier.__name__,
        ladder="ladder:LADDER",
        predicts="labels of texts or pairs of texts",
        predict="predictions:predict",
    ),
    "chat-sft": Recipe(
        name="chat-sft",
        summary="answers of chats and instructions, by a pretrained language model",
        resolve=resolve_chat_sft,
        idle=idle_sft,
        auto=auto_sft,
        asked=asked_of,
        data="answers",
        package=sft.__name__,
        module="chat",
        ladder="ladders:CHAT_SFT",
        sample="sampling:sample",
    ),
    "expert-sft": Recipe(
        name="expert-sft",
        summary="an adapter for each of some manifests, on packed rows",
        resolve=resolve_expert_sft,
        idle=idle_sft,
        auto=auto_sft,
        asked=asked_of,
        paths=("manifest",),
        data="answers",
        package=sft.__name__,
        module="experts",
        ladder="ladders:EXPERT_SFT",
        sample="sampling:sample",
        manifests="manifests:typed_manifests",
    ),
    "task-router": Recipe(
        name="task-router",
        summary="an adapter for each task on one frozen model, and a router that picks one",
        resolve=resolve_task_router,
        idle=idle_task_router,
        auto=auto_task_router,
        series=phases,
        member=one_phase,
        after=after_phases,
        one="phase=1",
        is_chain=True,
        paths=("adapters_from", "router_from"),
        data="tasks",
        package=task_router.__name__,
        ladder="ladder:LADDER",
        predicts="routes and answers, of its own held-out rows where no file is named; in a file "
        "each row has the key task and is as rows of that task, or it has text (and question), of "
        "a decoder prompt",
        predict="predictions:predict",
        section="report_section:routing",
    ),
}


def find(name: str) -> Recipe:
    """Return the recipe called `name`; UsageError lists the ones there are."""
    if name not in RECIPES:
        near = did_you_mean(name, RECIPES)
        raise UsageError(f"no recipe is called {name!r}{near} (there are: {', '.join(RECIPES)})")
    return RECIPES[name]
