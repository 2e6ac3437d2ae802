"""Printing, progress bars, trackers or plots take a noticeable part of the time.

Looks at: the wall time of the row "log", and call stacks after the step that pass through a logging
    library.
Says so when: together they take 5 % of the wall time or more.
Stays silent when: they take less, or the time after the step goes elsewhere.
Remedy: log every N steps, plot at the end of an epoch, or let a thread write.
Numbers: bitwise the same.
Seen: examples/planted/log_every_step.py.
Source: hotloop; a figure drawn at each step took most of the time in one measured script.
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing, hot_path

__all__ = ["RULE"]

LEAST = 0.05
LIBRARIES = (
    "wandb/",
    "tensorboard",
    "tqdm/",
    "matplotlib/",
    "mlflow/",
    "rich/",
    "logging/",
    "comet_ml/",
    "swanlab/",
)


def judge(case: Case) -> Finding | None:
    """Sum the log row and the logging after a step."""
    behind = [s for s in case.stacks if s.row == "after step" and s.passes(*LIBRARIES)]
    seconds = case.row("log") + sum(stack.seconds for stack in behind)
    stacks = [stack for stack in case.stacks if stack.row == "log"] + behind
    through = [name.strip("/") for name in LIBRARIES if any(s.passes(name) for s in stacks)]
    return costing(
        case,
        seconds,
        least=LEAST,
        claim=f"logging takes {case.part(seconds):.0%} of the time",
        places=hot_path(case, stacks),
        evidence={"through": ", ".join(through)} if through else {},
        remedies=[
            code_edit("log every 50 steps: if step % 50 == 0"),
            code_edit("plot and upload once per epoch, or from a thread"),
        ],
    )


RULE = Rule(
    title="Logging takes a noticeable part of the time",
    judge=judge,
    needs=(Needs.STEPS,),
    under="H18",
    weight=3,
    numerics="bitwise",
    experiment="logging",
)
