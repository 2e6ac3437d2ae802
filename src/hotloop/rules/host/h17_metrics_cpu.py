"""Metrics are computed on the host, step by step, while training waits.

Looks at: call stacks after the step and in evaluation that pass through a metric library, or
    through a function of the project named after a metric.
Says so when: they take 2 % of the wall time; as a note, unless an experiment showed a gain without
    the line.
Stays silent when: they take less, or a model is called or a loader read below that function: a
    function named after metrics may evaluate, and NumPy and SciPy serve loaders as well.
Remedy: keep counts (right, total, a confusion matrix) as tensors, and compute once per epoch.
Numbers: bitwise the same for training.
Seen: examples/slow/after_step_work.
Source: hotloop, from the five projects.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing, hot_path

if TYPE_CHECKING:
    from hotloop.core.case.steps_and_loaders import Stack

__all__ = ["RULE"]

ROWS = frozenset({"after step", "evaluate", "host waits", "log"})
LIBRARIES = ("sklearn/metrics/", "torchmetrics/", "torcheval/", "sacrebleu", "nltk/translate/")
# What a function that is named after a metric may do besides.
BESIDES = (
    *("torch/utils/data/", "__getitem__", "__getitems__", "collate"),
    "torch/nn/modules/module.py:_call_impl",
)
METRIC = re.compile(
    r"metric|accuracy|precision|recall|confusion|bleu|rouge|perplexity"
    r"|(?:^|[_.])(?:auc|auroc|f1|iou|dice|psnr|ssim)(?:$|_)",
    re.IGNORECASE,
)


def judge(case: Case) -> Finding | None:
    """Add up the stacks that compute metrics."""
    hot = [
        stack
        for stack in case.stacks
        if stack.row in ROWS
        and (stack.passes(*LIBRARIES) or is_metric(stack))
        and not stack.passes(*BESIDES)
    ]
    seconds = sum(stack.seconds for stack in hot)
    return costing(
        case,
        seconds,
        claim=f"computing metrics on the host takes {case.part(seconds):.0%} of the time",
        places=hot_path(case, hot),
        remedies=[
            code_edit("add counts up as tensors and compute the metrics once per epoch"),
            code_edit("compute them every 50 steps"),
        ],
    )


def is_metric(stack: Stack) -> bool:
    """Whether a function of the project is named after a metric."""
    return any(frame.own and METRIC.search(frame.function) for frame in stack.frames)


RULE = Rule(
    title="Metrics are computed on the host in the loop",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS),
    under="H18",
    weight=3,
    numerics="bitwise",
    experiment="line",
    only_measured=True,
    by_host=True,
)
