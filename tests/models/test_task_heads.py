"""Heads of several tasks at once: each row is answered by its own, and by no other."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from hotloop.models.task_heads import TaskHeads

D, T = 6, 7
LABELS, SPANS = (2, 0, 3, 0), (False, True, False, True)
LENGTHS = torch.tensor([7, 5, 6, 7, 4, 7])
BATCH = {
    "task": torch.tensor([0, 1, 2, 3, 0, 1]),
    "label": torch.tensor([1, -1, 2, -1, 0, -1]),
    "start": torch.tensor([-1, 2, -1, 4, -1, 3]),
    "end": torch.tensor([-1, 3, -1, 6, -1, 3]),
    "first": torch.tensor([-1, 2, -1, 3, -1, 1]),
    "attention_mask": torch.arange(T)[None] < LENGTHS[:, None],
}


@pytest.fixture
def heads():
    torch.manual_seed(0)
    made = TaskHeads(D, labels=LABELS, spans=SPANS)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_()
    return made


@pytest.fixture
def hidden():
    torch.manual_seed(1)
    return torch.randn(6, T, D)


def own_labels(heads, pooled, row):
    task = int(BATCH["task"][row])
    before = sum(LABELS[:task])
    return heads.labels(pooled[row])[before : before + LABELS[task]]


def own_ends(heads, hidden, row):
    """Return scores of begins and ends within the text."""
    place = sum(SPANS[: int(BATCH["task"][row])])
    inside = slice(int(BATCH["first"][row]), int(LENGTHS[row]))
    return heads.spans(hidden[row])[inside, 2 * place : 2 * place + 2]


def test_each_row_costs_what_its_own_head_alone_says(heads, hidden):
    pooled = hidden.mean(1)
    found = heads(hidden, pooled, BATCH)
    for row in range(6):
        if BATCH["label"][row] >= 0:
            scores = own_labels(heads, pooled, row)
            expected = cross_entropy(scores, BATCH["label"][row])
            assert found.label[row] == scores.argmax()
            assert found.wrong[row] == (scores.argmax() != BATCH["label"][row])
        else:
            ends = own_ends(heads, hidden, row)
            first = BATCH["first"][row]
            expected = (
                cross_entropy(ends[:, 0], BATCH["start"][row] - first)
                + cross_entropy(ends[:, 1], BATCH["end"][row] - first)
            ) / 2
        assert found.loss[row].item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_span_is_the_best_of_all_that_end_after_they_begin(heads, hidden):
    found = heads(hidden, hidden.mean(1), BATCH)
    for row in (1, 3, 5):
        ends, first = own_ends(heads, hidden, row).detach(), int(BATCH["first"][row])
        best = max(
            (ends[b, 0] + ends[e, 1], b + first, e + first)
            for b in range(len(ends))
            for e in range(b, len(ends))
        )
        assert (int(found.start[row]), int(found.end[row])) == best[1:]
        is_right = best[1:] == (int(BATCH["start"][row]), int(BATCH["end"][row]))
        assert bool(found.wrong[row]) != is_right


def test_a_head_learns_of_its_own_rows_alone(heads, hidden):
    found = heads(hidden, hidden.mean(1), BATCH)
    found.loss[0].backward()  # of the first task, whose labels are the first two
    assert heads.labels.weight.grad[:2].any()
    assert not heads.labels.weight.grad[2:].any()
    assert not heads.spans.weight.grad.any()


def test_gradients_are_finite_whatever_is_masked(heads, hidden):
    hidden.requires_grad_()
    heads(hidden, hidden.mean(1), BATCH).loss.mean().backward()
    assert hidden.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in heads.parameters())


def test_tasks_may_all_be_of_one_kind(hidden):
    labels = TaskHeads(D, labels=(2, 3), spans=(False, False))
    rows = {"task": torch.tensor([0, 1]), "label": torch.tensor([0, 2])}
    assert labels.spans is None
    assert labels(hidden[:2], hidden[:2].mean(1), rows).loss.shape == (2,)
    spans = TaskHeads(D, labels=(0,), spans=(True,))
    assert spans.labels is None
    rows = {name: each[5:] for name, each in BATCH.items()} | {"task": torch.tensor([0])}
    assert spans(hidden[5:], hidden[5:].mean(1), rows).loss.isfinite().all()
