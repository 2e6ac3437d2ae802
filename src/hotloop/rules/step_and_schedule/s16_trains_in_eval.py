"""A model is trained in evaluation mode: its dropout drops nothing, its batch norms are fixed.

Looks at: the mode of each model in the forward passes with gradients before each update, the last
    eval() on it, and its layers whose result depends on the mode: dropout, batch norm, layers of
    the project's own that ask for self.training.
Says so when: a tenth of the model's updates or more follow passes that all ran in evaluation mode,
    and such layers are there, beside weights that an optimizer holds; or each look after an update
    finds dropout off in a part of the model that a library returned in evaluation mode.
Stays silent when: the mode changes often from one update to the next, as that of a generator while
    its critic is trained; or the model is in training mode and only some layers are not, as norms
    that are kept on purpose.
Remedy: model.train() at the beginning of each epoch, and after each evaluation.
Numbers: training: the model is regularised as it was meant to be.
Seen: examples/planted/left_in_eval.py; a public training script (benchmarks/field, bert_ner_user):
    from_pretrained returns a model in evaluation mode.
Source: https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval
"""

from hotloop.core.case.objects import Model, Modes
from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]

FEWEST, SHARE = 4, 0.1  # updates; part of the model's
TURNS = 0.1  # changes of the mode, for each update


def judge(case: Case) -> Finding | None:
    """Speak of the largest model that is trained so."""
    for model in case.models:
        modes = model.modes
        if modes is not None and modes.part and modes.updates >= FEWEST:
            return _of_part(model, modes)
        if modes is None or not modes.off or modes.in_eval < max(FEWEST, SHARE * modes.updates):
            continue
        if modes.turns <= TURNS * modes.updates:
            return _finding(case, model, modes)
    return None


def _of_part(model: Model, modes: Modes) -> Finding:
    layers = ", ".join(f"{number} {kind}" for kind, number in modes.part_off.items())
    return Finding(
        claim=f"{modes.part} in {model.name} is trained in evaluation mode: its dropout is off",
        severity="warn",
        places=[modes.part_place] if modes.part_place else [],
        evidence={
            "layers in evaluation mode": layers,
            "train()": "nobody called it after the library had returned the model in this mode",
        },
        remedies=[code_edit("model.train() before the training: it reaches all parts")],
    )


def _finding(case: Case, model: Model, modes: Modes) -> Finding:
    place = modes.eval_place or case.steps.backward_place
    layers = ", ".join(f"{number} {kind}" for kind, number in modes.off.items())
    whole = modes.in_eval == modes.updates
    since = f" (from step {modes.eval_since} to the end)" if modes.eval_since else ""
    part = "all" if whole else f"{modes.in_eval:,} of"
    return Finding(
        claim=f"{model.name} is in evaluation mode in {part} {modes.updates:,} updates"
        f"{'' if whole else since}: its {_effects(modes)}",
        severity="warn",
        places=[place] if place else [],
        evidence={
            "layers in evaluation mode": layers,
            **({} if modes.eval_place else {"eval() by the script": "none: it was built so"}),
        },
        remedies=[code_edit("model.train() at the beginning of each epoch, after evaluating too")],
    )


def _effects(modes: Modes) -> str:
    effects = {
        "dropout is off": any("Dropout" in kind or "LSTM" in kind for kind in modes.off),
        "batch norms keep the statistics that they had": any("Norm" in k for k in modes.off),
    }
    told = [effect for effect, holds in effects.items() if holds]
    return " and its ".join(told) or "layers that ask for self.training get False"


RULE = Rule(
    title="A model trained in evaluation mode",
    judge=judge,
    needs=(Needs.STEPS, Needs.OPTIMIZER),
    kind="correctness",
    known="proved",
    weight=3,
    numerics="training",
)
