"""Both forms of a rewrite give the same, and only what is the same is timed."""

from dataclasses import replace

import pytest
import torch

from hotloop.core.case.rewrite import (
    AttentionMask,
    FunctionStep,
    LoopedOperator,
    RepeatedPart,
    Rewrite,
    SparseFactor,
)
from hotloop.core.finding import SourceLocation
from hotloop.observe.experiments import rewrites
from hotloop.observe.experiments.form_pair import Forms
from hotloop.observe.experiments.forms import forms
from hotloop.observe.experiments.rewrites import OtherForm

HEADS = Rewrite(
    kind="attention",
    shapes=((2, 3, 8, 4), (2, 3, 8, 4), (2, 3, 8, 4)),
    needs_grad=(True, True, True),
    dtypes=("float32", "float32"),
    calls=1,
    places=(SourceLocation(file="train.py", line=3),),
)
PAIRS = Rewrite(
    kind="contraction",
    form="squared",
    shapes=((1, 200, 64), (200, 1, 64)),
    needs_grad=(True, True),
    dtypes=("float32",),
    reduced=(2,),
    calls=2,
    places=(SourceLocation(file="train.py", line=7),),
)
GATES = Rewrite(
    kind="one product",
    form="with bias",
    shapes=((8, 5), (5, 4), (5, 4), (5, 2)),
    needs_grad=(True, True, True, True),
    dtypes=("float32",),
)
CAUSAL = AttentionMask(shape=(8, 8), is_added=False, is_causal=True)
SILU = Rewrite(
    kind="composed function",
    form="F.silu(x)",
    shapes=((64, 2048),),
    needs_grad=(True,),
    dtypes=("float32",),
    steps=(FunctionStep(name="sigmoid", inputs=(0,)), FunctionStep(name="mul", inputs=(0, 1))),
    calls=2,
    places=(SourceLocation(file="train.py", line=9),),
)
SOFTPLUS = (
    FunctionStep(name="exp", inputs=(0,)),
    FunctionStep(name="add", inputs=(-1, 1), numbers=(1.0,)),
    FunctionStep(name="log", inputs=(2,)),
)
DOT = Rewrite(
    kind="looped operator",
    form="dot",
    shapes=((16,), (16,)),
    needs_grad=(True, False),
    dtypes=("float32", "float32"),
    looped=LoopedOperator(
        name="aten::dot.",
        arguments='["tensor", "tensor"]',
        shared=(False, False),
        are_items=(True, False),
    ),
    in_loop=12,
    calls=2,
    places=(SourceLocation(file="train.py", line=11),),
)
LSTM = replace(GATES, form="lstm", shapes=((6, 8, 3), (7, 4)), needs_grad=(False, True), in_loop=6)

CELL = Rewrite(
    kind="recurrent cell",
    form="lstm_cell",
    shapes=((9, 2, 5), (16, 5), (16, 4)),
    needs_grad=(True, True, True),
    dtypes=("float32",),
    in_loop=9,
    calls=1,
    places=(SourceLocation(file="train.py", line=12),),
)
GRU = replace(CELL, form="gru", shapes=((9, 2, 5), (12, 5), (12, 4)))
GRAPH = Rewrite(
    kind="sparse product",
    sparse=SparseFactor(is_left=True, filled=0.1, is_constant=True),
    shapes=((40, 30), (30, 4)),
    needs_grad=(False, True),
    dtypes=("float32",),
    calls=1,
    places=(SourceLocation(file="train.py", line=13),),
)
SPLIT = Rewrite(
    kind="split heads",
    form="with bias",
    shapes=((16, 12), (2, 8, 4), (2, 8, 6)),
    needs_grad=(True, True, True),
    dtypes=("float32", "float32"),
    masks=(CAUSAL,),
    dropout=0.1,
    in_loop=3,
    calls=1,
    places=(SourceLocation(file="train.py", line=14),),
)
REPEATED = Rewrite(
    kind="repeated rows",
    shapes=((40, 7), (7, 3)),
    needs_grad=(True, True),
    dtypes=("float32",),
    repeated=(
        RepeatedPart(columns=4, rows=5, needs_grad=True),
        RepeatedPart(columns=3, rows=40, needs_grad=False),
    ),
    calls=1,
    places=(SourceLocation(file="train.py", line=15),),
)
RNN = replace(CELL, form="rnn_relu_cell", shapes=((9, 2, 5), (4, 5), (4, 4)))


@pytest.mark.parametrize(
    "rewrite",
    [
        HEADS,
        replace(HEADS, is_copied=True, masks=(CAUSAL,), dropout=0.1),
        replace(HEADS, masks=(replace(CAUSAL, is_added=True),)),
        replace(HEADS, masks=(AttentionMask(shape=(2, 1, 1, 8), is_added=False),)),
        replace(
            HEADS, masks=(CAUSAL, AttentionMask(shape=(3, 8, 8), is_added=True, needs_grad=True))
        ),
        replace(HEADS, shapes=((2, 3, 5, 4), (2, 3, 8, 4), (2, 3, 8, 6))),
        replace(HEADS, dtypes=("bfloat16", "float32"), masks=(CAUSAL,)),
        PAIRS,
        replace(PAIRS, form="norm"),
        replace(PAIRS, form="absolute", shapes=((3, 1, 9, 4), (3, 7, 1, 4)), reduced=(3,)),
        replace(PAIRS, form="product", shapes=((9, 4, 1), (9, 1, 6)), reduced=(0,)),
        replace(PAIRS, reduced=(0, 1, 2)),
        replace(PAIRS, form="product", shapes=((1, 9, 4), (7, 1, 4)), reduced=(0, 1, 2)),
        SPLIT,
        REPEATED,
        replace(
            REPEATED,
            needs_grad=(False, True),
            repeated=(RepeatedPart(columns=7, rows=5, needs_grad=False, is_chosen=True),),
        ),
        replace(
            REPEATED,
            repeated=(
                RepeatedPart(columns=4, rows=5, needs_grad=True),
                RepeatedPart(columns=3, rows=40, needs_grad=True, calls=6),
            ),
        ),
        replace(SPLIT, form="", needs_grad=(False, True, True), masks=()),
        GRAPH,
        replace(GRAPH, sparse=replace(GRAPH.sparse, is_constant=False), needs_grad=(False, False)),
        replace(GRAPH, sparse=replace(GRAPH.sparse, is_one_hot=True)),
        replace(
            GRAPH,
            sparse=replace(GRAPH.sparse, is_left=False),
            shapes=((30, 40), (4, 30)),
            dtypes=("float64",),
        ),
        GATES,
        replace(GATES, form="", in_loop=9, needs_grad=(False, True, True, True)),
        LSTM,
        replace(LSTM, form="lstm without bias", needs_grad=(True, True)),
        SILU,
        replace(SILU, dtypes=("bfloat16",), needs_grad=(False,)),
        replace(SILU, steps=SOFTPLUS),
        DOT,
        replace(
            DOT,
            form="sum",
            shapes=((3, 16),),
            needs_grad=(True,),
            dtypes=("float32",),
            looped=LoopedOperator(
                name="aten::sum.dim_IntList",
                arguments='["tensor", [-1], true]',
                shared=(False,),
                are_items=(False,),
            ),
        ),
        replace(
            DOT,
            form="mm",
            shapes=((3, 16), (16, 4)),
            looped=LoopedOperator(
                name="aten::mm.",
                arguments='["tensor", "tensor"]',
                shared=(False, True),
                are_items=(True, False),
            ),
        ),
        replace(DOT, form="copy_", shapes=((), ())),
        *(
            replace(DOT, form="numbers", shapes=((), ()), dtypes=(dtype, dtype))
            for dtype in ("int64", "float32", "bool")
        ),
        *(replace(CELL, form=form) for form in ("lstm_cell", "lstm", "lstm without bias")),
        *(replace(GRU, form=form) for form in ("gru", "gru_cell", "gru_cell without bias")),
        replace(RNN, needs_grad=(False, True, True)),
        replace(RNN, form="rnn_tanh", needs_grad=(True, False, False)),
    ],
)
def test_both_forms_are_the_same(rewrite):
    torch.manual_seed(0)
    pair = rewrites._Pair(rewrite)
    assert pair.differs() is None
    old, new = pair.measured()
    assert old > 0 or not rewrite.calls
    assert new > 0 or not rewrite.calls


def test_a_faster_form_saves_time_of_a_step_and_has_lines():
    change = OtherForm([PAIRS])
    assert change.prepare() is None
    part = change.measured_apart(1.0, 0.0)
    assert part.seconds > 2 * part.changed
    assert part.step(1.0) < 1.0
    assert change.places == PAIRS.places


def test_an_operator_in_place_of_several_is_faster():
    change = OtherForm([SILU])
    assert change.prepare() is None
    part = change.measured_apart(1.0, 0.0)
    assert part.seconds > part.changed


def test_a_normalisation_that_torch_has_is_faster():
    steps = (
        FunctionStep(name="mean", inputs=(0,)),
        FunctionStep(name="std", inputs=(0,), numbers=(1.0,)),
        FunctionStep(name="sub", inputs=(0, 1)),
        FunctionStep(name="mul", inputs=(-2, 3)),
        FunctionStep(name="add", inputs=(2, -1), numbers=(1e-6,)),
        FunctionStep(name="div", inputs=(4, 5)),
        FunctionStep(name="add", inputs=(6, -3)),
    )
    shapes = ((512, 256), (256,), (256,))
    change = OtherForm([replace(SILU, steps=steps, shapes=shapes, needs_grad=(True,) * 3)])
    assert change.prepare() is None
    part = change.measured_apart(1.0, 0.0)
    assert part.seconds > part.changed


def test_what_torch_has_not_as_one_is_no_other_form():
    steps = (*SOFTPLUS, FunctionStep(name="add", inputs=(0, 3)))
    assert "no such function" in str(OtherForm([replace(SILU, steps=steps)]).prepare())


def test_another_result_is_no_other_form(monkeypatch):
    def wrong(rewrite: Rewrite) -> Forms:
        both = forms(rewrite)
        return replace(both, exact=(both.old, lambda: [2 * one for one in both.new()]))

    monkeypatch.setattr(rewrites, "forms", wrong)
    assert OtherForm([PAIRS]).prepare() == "the other form gives other values"


def test_what_cannot_be_built_says_why():
    assert "no tolerance" in str(OtherForm([replace(PAIRS, dtypes=("complex64",))]).prepare())
    huge = replace(PAIRS, shapes=((1, 1 << 40, 64), (1 << 40, 1, 64)))
    assert "Error" in str(OtherForm([huge]).prepare())


def test_gradients_are_needed_even_below_no_grad():
    with torch.no_grad():
        assert OtherForm([PAIRS]).prepare() is None
