"""The entry of task-router."""

from hotloop.recipes.building.entry import Recipe
from hotloop.recipes.task_router.config import (
    after_phases,
    idle_task_router,
    one_phase,
    phases,
    resolve_task_router,
)
from hotloop.recipes.task_router.presets import auto_task_router

__all__ = ["RECIPE"]

RECIPE = Recipe(
    name="task-router",
    resolve=resolve_task_router,
    idle=idle_task_router,
    auto=auto_task_router,
    freezes=lambda config: config.phase != "2",  # its router learns on features alone
    series=phases,
    member=one_phase,
    after=after_phases,
    one="phase=1",
    is_chain=True,
    paths=("adapters_from", "router_from"),
    data="tasks",
    package=str(__package__),
    ladder="ladder:LADDER",
    predicts="routes and answers, of its own held-out rows where no file is named; in a file each "
    "row has the key task and is as rows of that task, or it has text (and question), of a decoder "
    "prompt",
    predict="predictions:predict",
    section="report_section:routing",
    compares="feature_cache:refuse_mismatch",
)
