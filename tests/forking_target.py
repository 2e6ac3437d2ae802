"""Not a test: a recipe whose trials of one rank are forks, which have torch and hotloop already."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from tests.forked import RECIPE_TRIAL, Forks

from hotloop.tuning import recipe_trial
from hotloop.tuning.recipe_target import RecipeTarget


class ForkingTarget(RecipeTarget):
    """Give `race` and `tune` what RecipeTarget gives; trials of several ranks are processes."""

    forks: ClassVar[Forks]

    @classmethod
    @contextmanager
    def of(cls, target: RecipeTarget) -> Iterator["ForkingTarget"]:
        with Forks(*RECIPE_TRIAL) as cls.forks:
            yield cls(request=target.request, prepared=target.prepared)

    def _start(self, plan, aside=None):
        if plan.ranks > 1:
            return super()._start(plan, aside)
        command = recipe_trial.command(0, plan, self.request, aside=aside)
        return self.forks.start(command, module=recipe_trial.__name__)
