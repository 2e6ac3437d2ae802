"""Tensors are built from Python lists, element by element.

Looks at: the lines at which torch.tensor, torch.as_tensor or a constructor such as
    torch.FloatTensor gets a list of arrays or of numbers, and the time that they take.
Says so when: an experiment that makes an array of each list first, with the same tensors as its
    result, gained 3 % or more.
Stays silent when: the values are not lists, or an array of them gives another tensor.
Remedy: torch.from_numpy(np.array(values, dtype=np.float32)); numpy copies an array as a whole,
    torch reads a list of arrays number by number.
Numbers: bitwise the same.
Seen: examples/planted/listed_states.py.
Source: torch's own warning, "Creating a tensor from a list of numpy.ndarrays is extremely slow",
    https://github.com/pytorch/pytorch/issues/13918
"""

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing
from hotloop.rules.support.slow_calls import list_conversions

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Take the time of the lines on which an experiment was made."""
    made = next((one for one in case.experiments if one.name == "converted lists"), None)
    seconds = list_conversions(case)
    if made is None or not seconds:
        return None
    return costing(
        case,
        sum(seconds.values()),
        claim="tensors are built from Python lists, element by element",
        places=made.places[:4],
        remedies=[
            code_edit(
                "convert the list to one array first: "
                "torch.from_numpy(np.array(values, dtype=np.float32)), with the dtype of the tensor"
            )
        ],
    )


RULE = Rule(
    title="Tensors are built from Python lists",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS),
    numerics="bitwise",
    experiment="converted lists",
    only_measured=True,
)
