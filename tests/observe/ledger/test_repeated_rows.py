"""Products of rows of which many are copies, as recorded steps show them."""

import torch
from tests.observe.ledger.recorded import recorded
from torch import nn

from hotloop.core.case.rewrite import RepeatedPart
from hotloop.observe.ledger.rewrites import found

NODES, EDGES, SIZE = 8, 48, 6


def seen(loss, *weights: torch.Tensor):
    """Return the products of repeated rows among three steps."""
    recorder, flow = recorded(lambda: [loss()], list(weights))
    result = [one for one in found(flow) if one.kind == "repeated rows"]
    recorder.release()
    return result


def part(columns: int, rows: int, *, needs_grad: bool = True, **how) -> RepeatedPart:
    return RepeatedPart(columns=columns, rows=rows, needs_grad=needs_grad, **how)


def test_both_ends_of_edges():
    first, layer = nn.Linear(SIZE, SIZE), nn.Linear(2 * SIZE + 1, 4)
    x, lengths = torch.randn(NODES, SIZE), torch.randn(EDGES, 1)
    ends = torch.randint(NODES, (2, EDGES))

    def loss() -> torch.Tensor:
        h = first(x)
        return layer(torch.cat([h[ends[0]], h.index_select(0, ends[1]), lengths], 1)).mean()

    (one,) = seen(loss, *first.parameters(), *layer.parameters())
    whole = part(1, EDGES, needs_grad=False)
    end = part(SIZE, NODES, is_chosen=True)
    assert one.repeated == (end, end, whole)
    assert one.shapes == ((EDGES, 2 * SIZE + 1), (2 * SIZE + 1, 4))
    assert one.calls == 1


def test_rows_that_are_expanded_or_repeated_as_a_whole():
    layer, labels = nn.Linear(SIZE, 4), nn.Parameter(torch.randn(5, SIZE))
    ways = (lambda: labels.expand(7, 5, SIZE).contiguous(), lambda: labels[None].repeat(7, 1, 1))
    for copied in ways:
        (one,) = seen(lambda copied=copied: layer(copied()).mean(), *layer.parameters())
        assert one.repeated == (part(SIZE, 5),)


def test_all_pairs():
    first, layer = nn.Linear(SIZE, SIZE), nn.Linear(2 * SIZE, 1)
    x = torch.randn(NODES, SIZE)

    def loss() -> torch.Tensor:
        h = first(x)
        left = h.repeat(1, NODES).view(NODES * NODES, -1)
        return layer(torch.cat([left, h.repeat(NODES, 1)], dim=1)).mean()

    (one,) = seen(loss, *first.parameters(), *layer.parameters())
    assert one.repeated == (part(SIZE, NODES), part(SIZE, NODES))


def test_what_a_loop_over_time_does_not_change():
    rows, length, steps = 3, 6, 4
    enc, energy = nn.Linear(SIZE, SIZE), nn.Linear(2 * SIZE, 5)
    cell, x = nn.Linear(SIZE, SIZE), torch.randn(rows, length, SIZE)

    def loss() -> torch.Tensor:
        memory, state, total = enc(x), torch.zeros(rows, SIZE), 0.0
        for _ in range(steps):
            state = cell(state).tanh()
            asked = state.unsqueeze(1).repeat(1, length, 1)
            total = total + energy(torch.cat((asked, memory), dim=2)).tanh().mean()
        return total

    (one,) = seen(loss, *(p for m in (enc, energy, cell) for p in m.parameters()))
    assert one.repeated == (part(SIZE, rows), part(SIZE, rows * length, calls=steps))
    assert one.calls == steps


def test_other_inputs_are_none():
    layer, table = nn.Linear(SIZE, 4), nn.Embedding(1000, SIZE)
    x, ids = torch.randn(EDGES, SIZE), torch.randint(1000, (EDGES,))
    weights = [*layer.parameters(), *table.parameters()]
    assert not seen(lambda: layer(x).mean(), *weights)
    assert not seen(lambda: layer(table(ids)).mean(), *weights)  # of more rows than are chosen
    assert not seen(lambda: layer(torch.cat([x, x * 2])).mean(), *weights)  # below each other
    few, letters = nn.Embedding(5, SIZE // 3), torch.randint(5, (EDGES, 3))
    weights += few.parameters()  # rows of three letters each, of which there are 125
    assert not seen(lambda: layer(few(letters).flatten(1)).mean(), *weights)
    few = torch.randn(4, SIZE)[torch.randint(4, (12,))]
    assert not seen(lambda: layer(few.clone()).mean(), *weights)
