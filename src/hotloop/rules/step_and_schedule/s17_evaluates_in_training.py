"""A model is evaluated in training mode: its dropout drops, its batch norms learn the test rows.

Looks at: the mode of each model in the forward passes without gradients of evaluations that read a
    loader which does not feed the training, and the layers whose result depends on the mode.
Says so when: half of these passes or more ran in training mode and such layers are there.
Stays silent when: the model was in evaluation mode; it has no such layers; or the passes read the
    training's loader or none, as those that set batch norms anew, or an agent's.
Remedy: model.eval() before the evaluation, model.train() after it.
Numbers: training: the figure is that of the whole model, and the same each time; statistics of
    batch norms come from training rows alone.
Seen: examples/planted/evaluated_with_dropout.py.
Source: https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Speak of the largest model that is evaluated so."""
    for model in case.models:
        modes = model.modes
        if modes is None or not modes.layers or modes.unset * 2 < max(1, modes.scored):
            continue
        places = [span.place for span in case.evaluations if span.training_mode and span.place]
        layers = ", ".join(f"{number} {kind}" for kind, number in modes.layers.items())
        return Finding(
            claim=f"{modes.unset:,} of {modes.scored:,} forward passes that evaluate {model.name} "
            "ran in training mode",
            severity="warn",
            places=list(dict.fromkeys(places)),
            evidence={"layers whose result depends on the mode": layers},
            remedies=[code_edit("model.eval() before the evaluation, model.train() after it")],
        )
    return None


RULE = Rule(
    title="A model evaluated in training mode",
    judge=judge,
    needs=(Needs.STEPS, Needs.EVALUATIONS),
    kind="correctness",
    known="proved",
    weight=3,
    numerics="training",
)
