"""Products with a matrix that is almost all zeros, as recorded steps show them."""

import torch
from tests.observe.ledger.recorded import recorded
from torch import nn
from torch.nn import functional

from hotloop.core.case.rewrite import Rewrite
from hotloop.observe.ledger.rewrites import found

NODES, WORDS = 200, 150
GRAPH = (torch.rand(NODES, NODES, generator=torch.Generator().manual_seed(0)) < 0.02).float()


def seen(loss, weights) -> list[Rewrite]:
    """Record steps of a loss; return the products with zeros."""
    recorder, flow = recorded(lambda: [loss()], weights)
    result = [one for one in found(flow) if one.kind == "sparse product"]
    recorder.release()
    return result


def test_a_graph_is_a_sparse_factor_on_either_side():
    weight = nn.Parameter(torch.randn(NODES, 8))
    (left,) = seen(lambda: (GRAPH @ weight).relu().sum(), [weight])
    (right,) = seen(lambda: (weight.t() @ GRAPH).relu().sum(), [weight])
    for one, is_left in ((left, True), (right, False)):
        assert one.sparse is not None
        assert (one.sparse.is_left, one.sparse.is_constant) == (is_left, True)
        assert not one.sparse.is_one_hot
        assert one.sparse.filled == 0.02
        assert one.shapes[0] == (NODES, NODES)
        assert one.needs_grad == (False, True)
    assert left.shapes[1] == (NODES, 8)
    assert right.shapes[1] == (8, NODES)


def test_one_hot_rows_of_each_step_are_known_as_such():
    weight = nn.Parameter(torch.randn(WORDS, 8))

    def loss() -> torch.Tensor:
        rows = functional.one_hot(torch.randint(WORDS, (NODES,)), WORDS).float()
        return (rows @ weight).relu().sum()

    (one,) = seen(loss, [weight])
    assert one.sparse is not None
    assert one.sparse.is_one_hot
    assert not one.sparse.is_constant


def test_a_batch_of_one_graph_counts_and_several_do_not():
    weight = nn.Parameter(torch.randn(1, NODES, 8))
    (one,) = seen(lambda: torch.bmm(GRAPH[None], weight).relu().sum(), [weight])
    assert one.shapes == ((NODES, NODES), (NODES, 8))
    pair = nn.Parameter(torch.randn(2, NODES, 8))
    two = torch.stack([GRAPH, GRAPH])
    assert not seen(lambda: torch.bmm(two, pair).relu().sum(), [pair])


def test_full_small_and_trained_factors_are_none():
    weight = nn.Parameter(torch.randn(NODES, 8))
    full = torch.randn(NODES, NODES)
    assert not seen(lambda: (full @ weight).relu().sum(), [weight])
    tenth = full * (torch.rand(NODES, NODES) < 0.15)
    assert not seen(lambda: (tenth @ weight).relu().sum(), [weight])
    small = torch.eye(8)
    assert not seen(lambda: (weight @ small).relu().sum(), [weight])
    trained = nn.Parameter(GRAPH.clone())
    assert not seen(lambda: (trained @ weight).relu().sum(), [weight, trained])


def test_zeros_that_a_sample_does_not_see_are_no_zeros():
    weight = nn.Parameter(torch.randn(NODES, 8))
    striped = torch.randn(NODES, NODES)
    striped[::3] = 0  # all that the sample looks at
    assert not seen(lambda: (striped @ weight).relu().sum(), [weight])
