"""Work of a step that is right, and that another form of the same operators does faster.

observe/ledger/rewrites.py finds it by its dataflow, observe/experiments/rewrites.py times both.
"""

from dataclasses import dataclass
from typing import Literal

from hotloop.core.finding import SourceLocation

__all__ = [
    "AttentionMask",
    "FunctionStep",
    "LoopedOperator",
    "RepeatedPart",
    "Rewrite",
    "RewriteKind",
    "SparseFactor",
]

# Product, softmax and product; a broadcast and a sum; several products of one input; a function of
# each element, or of each row, of several operators; one operator that a Python loop calls on many
# tensors; a recurrent layer that a Python loop calls for each time step; a product with a matrix
# that is almost all zeros; heads of attention that are computed one by one; a product of rows of
# which many are the same.
RewriteKind = Literal[
    "attention",
    "contraction",
    "one product",
    "composed function",
    "looped operator",
    "recurrent cell",
    "sparse product",
    "split heads",
    "repeated rows",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionMask:
    """A tensor that changes the scores of attention."""

    shape: tuple[int, ...]
    is_added: bool  # else it says which scores are left out
    is_causal: bool = False  # it leaves out what comes later, and nothing else
    needs_grad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionStep:
    """An operator of a function of each element, or of each row, of a tensor."""

    name: str  # without its namespace: "mul"
    # Of each argument: 0 for the input of the function, n for the result of the n-th operator, -1
    # for the next of `numbers`, -2 and -3 for a tensor with a number for each column.
    inputs: tuple[int, ...]
    numbers: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopedOperator:
    """An operator that is called again and again, on tensors that do not depend on one another."""

    name: str  # with its overload: "aten::mul.Tensor"
    arguments: str  # JSON: a list with "tensor" for each tensor, and the other arguments
    shared: tuple[bool, ...]  # of each tensor: all calls get the same
    are_items: tuple[bool, ...]  # of each tensor: it is an item of a larger one that is trained


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseFactor:
    """A factor of a product that is almost all zeros."""

    is_left: bool  # of both factors; else it is the right one
    filled: float  # share of its numbers that are not 0, to one digit
    is_constant: bool  # several steps multiply the same; else each step has its own
    is_one_hot: bool = False  # a one in each row, and zeros


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedPart:
    """Columns of a product's input, whose rows are copies of fewer rows."""

    columns: int
    rows: int  # of which the others are copies
    needs_grad: bool
    is_chosen: bool = False  # the copies are looked up; else they are in order
    calls: int = 1  # of a step, with one weight, that get the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Calls of one form at one place, with tensors of the same shapes."""

    kind: RewriteKind
    # Of attention: queries, keys and values as (batch, heads, length, size). Of a contraction: both
    # factors, with 1 where one is broadcast. Of products: the input and each weight. Of a composed
    # function: the input, and a factor and a summand for its columns. Of a looped operator: the
    # tensors of one call. Of a recurrent cell: all inputs as (time, batch, size), and the weights
    # of the input and of the state. Of a sparse product: the sparse factor, the other. Of split
    # heads: the input, and queries and values of one head as (batch, length, size). Of repeated
    # rows: the input and the weight, as (inner, outer).
    shapes: tuple[tuple[int, ...], ...]
    needs_grad: tuple[bool, ...]  # one for each shape
    dtypes: tuple[str, ...]  # of the products; of attention also that of the softmax
    device: str = "cpu"
    # Of a contraction: "product", "squared", "absolute" or "norm". Of products: "with bias"; or
    # "lstm", "lstm without bias" for all steps of a loop over time, with the inputs as (time,
    # batch, size) and the weight of one gate. Of a composed function: torch's call that does it. Of
    # a looped operator: its name, or "numbers" for Python numbers that go into a tensor. Of a
    # recurrent cell: "lstm_cell", "lstm" if nn.LSTM is given one step at a time, and so on.
    form: str = ""
    reduced: tuple[int, ...] = ()  # the dimensions that a contraction sums over
    masks: tuple[AttentionMask, ...] = ()
    dropout: float = 0.0
    is_copied: bool = False  # queries and keys are views of (batch, length, heads, size)
    steps: tuple[FunctionStep, ...] = ()  # of a composed function, in their order
    looped: LoopedOperator | None = None
    sparse: SparseFactor | None = None
    repeated: tuple[RepeatedPart, ...] = ()  # of repeated rows: the parts of the input, in order
    # Calls with the same weights in one step: a Python loop over time. Of a looped operator: calls
    # that one call on all tensors replaces. Of split heads: how many.
    in_loop: int = 1
    places: tuple[SourceLocation, ...] = ()  # the project's lines, from the first operator on
    calls: float = 0.0  # of a step; of a looped operator, the loops of a step
    seconds: float = 0.0  # of a step, as recorded, with the backward pass
    share: float = 1.0  # of the time of all operators of a step: of the step at most
