"""Prediction and target are swapped in a metric or a loss whose arguments are not symmetric.

Looks at: calls of scikit-learn's metrics, of torch.nn.functional's losses and of torch's loss
    modules, with both arguments named for what they are.
Says so when: a scikit-learn metric, which takes the truth first, gets a prediction first and a
    truth second; or a torch loss, which takes the prediction first, gets them the other way round.
    A note: names alone tell it.
Stays silent when: the metric is symmetric (accuracy, mean squared error), arguments are given by
    keyword, or the names do not tell both.
Remedy: swap them, or name them: precision_score(y_true=..., y_pred=...).
Numbers: the metric changes; of a loss, the training does.
Seen: examples/planted/soft_labels.py.
Source: hotloop, from the five projects (precision and recall exchanged in a table of results);
    scikit-learn, https://scikit-learn.org/stable/modules/model_evaluation.html (2026-11).
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Literal

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.syntax import Module, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RULE"]

# Functions whose result changes if the arguments are swapped.
TRUTH_FIRST = {
    "average_precision_score",
    "balanced_accuracy_score",
    "brier_score_loss",
    "classification_report",
    "confusion_matrix",
    "fbeta_score",
    "log_loss",
    "mean_absolute_percentage_error",
    "precision_recall_curve",
    "precision_recall_fscore_support",
    "precision_score",
    "r2_score",
    "recall_score",
    "roc_auc_score",
    "roc_curve",
}
PREDICTION_FIRST = {
    "cross_entropy",
    "nll_loss",
    "kl_div",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "poisson_nll_loss",
}
MODULES = {
    "CrossEntropyLoss",
    "NLLLoss",
    "KLDivLoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "PoissonNLLLoss",
}
PREDICTION = {"pred", "preds", "prediction", "predictions", "predicted", "yhat", "hat"}
PREDICTION |= {"output", "outputs", "logit", "logits", "prob", "probs", "probabilities"}
TRUTH = {"target", "targets", "label", "labels", "true", "truth", "gt", "gold", "references"}

Side = Literal["prediction", "truth"]


def judge(case: Case) -> Finding | None:
    """Report the first call whose arguments are swapped."""
    for module in parse(case.sources).modules:
        losses = _losses(module)
        for call in _calls(module):
            first, second = map(_side, call.args[:2])
            name = module.name(call)
            last = name.rpartition(".")[2]
            first_side: Side | None = None
            if name.startswith("sklearn.") and last in TRUTH_FIRST:
                first_side = "truth"
            elif name in losses or (name.startswith(("torch.", "F.")) and last in PREDICTION_FIRST):
                first_side = "prediction"
            if first_side and first and second and first != second and first != first_side:
                return Finding(
                    claim=f"{last} takes the {first_side} first and gets it second: "
                    f"{ast.unparse(call):.80}",
                    severity="critical",
                    places=[module.place(call)],
                    remedies=[code_edit("swap the two arguments")],
                )
    return None


def _calls(module: Module) -> Iterator[ast.Call]:
    for node in module.nodes:
        if (
            isinstance(node, ast.Call)
            and len(node.args) >= 2
            and not any(isinstance(argument, ast.Starred) for argument in node.args[:2])
        ):
            yield node


def _losses(module: Module) -> set[str]:
    """Return the names that hold one of torch's loss modules: "criterion", "self.criterion"."""
    return {
        ast.unparse(target)
        for node in module.nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if module.name(node.value).rpartition(".")[2] in MODULES
        for target in node.targets
    }


def _side(node: ast.expr) -> Side | None:
    """Return the side of an argument by its name, without methods and indices; None: unclear."""
    name = ""
    while not name:
        match node:
            case ast.Call(func=ast.Attribute(value=inner)):  # y_pred.cpu() is y_pred
                node = inner
            case ast.Subscript(slice=ast.Constant(value=str(key))):  # batch["labels"]
                name = key
            case ast.Subscript(value=inner):
                node = inner
            case ast.Attribute(attr=last) | ast.Name(id=last):
                name = last
            case _:
                return None
    words = set(re.findall(r"[a-z]+", name.lower()))
    if bool(words & PREDICTION) == bool(words & TRUTH):
        return None
    return "prediction" if words & PREDICTION else "truth"


RULE = Rule(
    title="Prediction and target swapped",
    judge=judge,
    needs=(Needs.CODE,),
    weight=3,
    numerics="training",
    kind="correctness",
    known="read",
)
