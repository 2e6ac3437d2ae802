"""A function that torch has as one operator is composed of several.

Looks at: the recorded operators: several that compute one function of a tensor, with numbers, whose
    results in between nothing else reads. Their values and gradients on many inputs are those of
    one function of torch: of each element, such as GELU, SiLU or softplus; or of each row, such as
    layer_norm, rms_norm, softmax or log_softmax, with a factor and a summand for its columns.
Says so when: an experiment measured a gain of 3 % or more by torch's function on tensors of these
    shapes, forward and backward; without an experiment, as a note, when they take 10 % of the time.
Stays silent when: torch has no such function, another tensor takes part, an intermediate result is
    read elsewhere or detached, a library chooses the operators, or torch's function is no faster.
Remedy: the call that the finding names.
Numbers: rounding. Where the script's form overflows, such as log(1 + exp(x)), torch's does not. If
    the script adds epsilon to the standard deviation, the values of nearly constant rows differ:
    torch adds epsilon to the variance.
Seen: examples/planted/own_gelu.py; written after karpathy/makemore. Normalisations that are written
    out stand in many BERTs and in The Annotated Transformer.
Source: hotloop; https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.gelu.html,
    https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.layer_norm.html
"""

from hotloop.core.case.rewrite import Rewrite
from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.rewrites import of_kind, rewritten

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Sum what the recorded operators took."""
    rewrites = of_kind(case, "composed function")
    forms = list(dict.fromkeys(one.form for one in rewrites))
    most = max((len(one.steps) for one in rewrites), default=0)
    if len(forms) == 1:
        claim = f"{forms[0]} is composed of {most} operators"
    else:
        claim = f"{len(forms)} functions of torch are composed of up to {most} operators each"
    return rewritten(
        case,
        rewrites,
        claim=claim,
        remedies=[code_edit(_in_words(form, rewrites)) for form in forms],
    )


def _in_words(form: str, rewrites: list[Rewrite]) -> str:
    """Return a remedy; if the script adds epsilon to a standard deviation, say what differs."""
    text = f"{form}, which is one operator"
    of_form = (step.name for one in rewrites if one.form == form for step in one.steps)
    return f"{text}; the values of nearly constant rows differ" if "std" in of_form else text


RULE = Rule(
    title="A function of torch is composed of several operators",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=3,
    numerics="rounding",
    experiment="composed function",
    only_measured=True,
)
