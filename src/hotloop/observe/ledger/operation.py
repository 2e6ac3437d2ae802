"""A recorded operator: one call of it, with what it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Operand", "Operation", "RawStack", "Zeros"]

RawStack = tuple[tuple[Any, int], ...]  # code and line of each frame, innermost first


@dataclass(frozen=True, slots=True)
class Zeros:
    """How much of a matrix is zero."""

    filled: float  # share of the numbers that are not 0
    is_one_hot: bool = False  # a one in each row, and zeros


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A tensor that an operation reads; noted of operations that another form may replace."""

    shape: tuple[int, ...]  # with 1 where it is expanded
    full: tuple[int, ...]
    dtype: str
    device: str
    needs_grad: bool
    identity: object  # equal for the same values in the same layout
    storage: int | None  # address, of a storage that is older than the window
    writers: tuple[int, ...]
    strides: tuple[int, ...] = ()
    number: float | None = None  # of a tensor that is a number on the CPU and is not trained
    is_causal: bool = False  # it leaves out all above the diagonal, and nothing else
    is_item: bool = False  # or a slice, of a tensor that is differentiated
    zeros: Zeros | None = None  # of a large factor of a product that is not differentiated


@dataclass(slots=True)
class Operation:
    """One call of an operator."""

    name: str
    start: int  # ns, of perf_counter_ns
    spent: int  # ns
    stack: RawStack
    reads: tuple[int, ...] = ()  # numbers of the operations whose results it reads
    table: tuple[int, ...] | None = None  # of a choice of rows: those of `reads` that made the rows
    drawn: float = 0.0  # share of the rows that such a choice takes
    table_shape: tuple[int, ...] = ()  # of a tensor from which rows are chosen
    outside: tuple[int, ...] = ()  # storages that it reads and that are older than the window
    changed: tuple[int, ...] = ()  # storages older than the window that it writes into
    has_effect: bool = False  # it does something that cannot be followed
    value: int | None = None  # None: random, or the operator computes nothing
    is_random: bool = False
    is_view: bool = False
    node: int | None = None  # sequence number of the autograd node that runs it
    sequence: int = -1  # number of the newest autograd node when it ran
    flops: int = 0
    bytes: int = 0
    unused: Any = None  # share of the gradient's rows that are 0, a tensor until the end
    ignored: Any = None  # share of the targets that the loss ignores
    left_out: Any = None  # share of the positions of a log-softmax without a gradient
    constant: bool = False  # the rows without a gradient all have the same input
    factor_zero: bool = False  # a product with the number 0
    tail: Any = None  # share of an embedding's ids that are a run of one id at the end of rows
    declared: bool = False  # that id is the embedding's padding_idx
    overload: str = ""  # the name with it: "aten::mul.Tensor"
    operands: tuple[Operand, ...] = ()  # noted by operands.py
    numbers: tuple[Any, ...] = ()  # the other arguments
    are_tensors: tuple[bool, ...] = ()  # of all arguments but those with a name
    options: tuple[tuple[str, Any], ...] = ()  # the arguments with a name
    shape: tuple[int, ...] = ()  # of the result
