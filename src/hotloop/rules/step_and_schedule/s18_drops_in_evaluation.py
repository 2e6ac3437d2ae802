"""Dropout stays on in evaluation mode: the scores are those of a model that drops numbers.

Looks at: the lines that drop numbers when the model of the run is called once more, on two rows of
    a batch and in evaluation mode; and the passes that evaluated it in that mode.
Says so when: such a line ran, and the script evaluated the model in evaluation mode.
Stays silent when: the line says training=True, as those do that want samples; the script does not
    evaluate the model, or does so in training mode (S17).
Remedy: F.dropout(x, p, training=self.training); attention with dropout_p=p if self.training else 0;
    an nn.Dropout made in __init__, where eval() finds it.
Numbers: eval: the figure is that of the whole model, and the same each time.
Seen: examples/planted/dropout_always_on.py.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.dropout.html
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Speak of the largest such model."""
    for model in case.models:
        modes = model.modes
        if modes is None or not model.drops or modes.scored <= modes.unset:
            continue
        return Finding(
            claim=f"dropout is on in evaluation mode: {model.name} drops numbers in the "
            f"{modes.scored - modes.unset:,} forward passes that evaluate it",
            severity="warn",
            places=list(model.drops),
            remedies=[
                code_edit(
                    "F.dropout(x, p, training=self.training); for attention "
                    "dropout_p=p if self.training else 0.0; make each nn.Dropout in __init__"
                )
            ],
        )
    return None


RULE = Rule(
    title="Dropout on in evaluation",
    judge=judge,
    needs=(Needs.STEPS,),
    kind="correctness",
    known="proved",
    weight=3,
    numerics="training",
)
