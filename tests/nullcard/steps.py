"""Runs `hotloop train` on the null card and counts each optimizer step apart.

Kernels compute nothing there, so all gradients stay zero: hotloop's checks that parameters learn
and that the loss scale holds are taken out. What else the engine does is what it does on a card.
"""

from typing import Any

from tests.nullcard.programs import counts, reset

__all__ = ["train"]


def train(*words: str) -> dict[str, Any]:
    """Run `hotloop train WORDS`; return its exit code, and of each step launches and waits.

    A step lasts from the end of the step before it to its own end; the first one lasts from the
    start, and what follows the last step (validation, checkpoint) is not in it.
    """
    from hotloop.cli.main import main
    from hotloop.engine import metrics_log, step
    from hotloop.models.trainable_parameters import Gradients

    steps: list[dict[str, Any]] = []
    ended = metrics_log.MetricsLog.step

    def record(self: metrics_log.MetricsLog, *arguments: Any) -> None:
        ended(self, *arguments)
        own = counts()
        steps.append({"launches": own.launches, "waits": dict(own.waits)})
        reset()

    metrics_log.MetricsLog.step = record  # type: ignore[method-assign]
    Gradients.refuse_dead = lambda _: None  # type: ignore[method-assign]
    step.refuse_collapse = metrics_log.refuse_collapse = lambda _: None
    reset()
    return {"exit": main(["train", *words]), "steps": steps}
