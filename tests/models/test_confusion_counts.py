import pytest
import torch

from hotloop.models.confusion_counts import confusion


def one_by_one(logits, labels, groups, shape):
    counts = torch.zeros(shape, dtype=torch.int64)
    for row, (label, group) in enumerate(zip(labels.tolist(), groups, strict=True)):
        counts[group, label, max(range(shape[-1]), key=lambda at, row=row: logits[row, at])] += 1
    return counts


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("classes", [2, 5])
def test_batches_add_up_to_what_going_through_their_rows_counts(classes, dtype):
    torch.manual_seed(0)
    shape = (3, classes, classes)
    into, expected = torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.int64)
    for rows in (7, 1, 40):
        logits = torch.randn(rows, classes).to(dtype)
        labels = torch.randint(classes, (rows,))
        groups = torch.randint(3, (rows,))
        kept = labels.clone(), groups.clone()
        confusion(logits, labels, groups, into)
        expected += one_by_one(logits, labels, groups.tolist(), shape)
        assert torch.equal(labels, kept[0])
        assert torch.equal(groups, kept[1])
    assert into.sum() == 48
    assert torch.equal(into, expected)


def test_without_groups_all_rows_are_of_the_first():
    logits = torch.tensor([[2.0, 1.0], [0.0, 1.0], [3.0, 0.0]])
    into = torch.zeros(2, 2, 2, dtype=torch.int64)
    confusion(logits, torch.tensor([0, 0, 1]), None, into)
    assert into.tolist() == [[[1, 1], [1, 0]], [[0, 0], [0, 0]]]


def test_of_equal_logits_the_first_class_counts():
    into = torch.zeros(1, 3, 3, dtype=torch.int64)
    confusion(torch.zeros(4, 3), torch.tensor([0, 1, 2, 2]), None, into)
    assert into.tolist() == [[[1, 0, 0], [1, 0, 0], [2, 0, 0]]]


def test_no_value_is_read_by_the_host():
    into = torch.zeros(2, 3, 3, dtype=torch.int64, device="meta")  # without any values
    labels = torch.zeros(4, dtype=torch.int64, device="meta")
    confusion(torch.zeros(4, 3, device="meta"), labels, labels, into)
    for reads in (lambda: into.sum().item(), lambda: torch.bincount(labels, minlength=9)):
        with pytest.raises((RuntimeError, NotImplementedError)):
            reads()


@pytest.mark.gpu
def test_the_host_does_not_wait_for_the_gpu():
    torch.manual_seed(0)
    logits, labels = torch.randn(64, 5), torch.randint(5, (64,))
    groups = torch.randint(3, (64,))
    on_gpu = [tensor.cuda() for tensor in (logits, labels, groups)]
    into = torch.zeros(3, 5, 5, dtype=torch.int64, device="cuda")
    try:
        torch.cuda.set_sync_debug_mode("error")
        confusion(*on_gpu, into)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(into.cpu(), one_by_one(logits, labels, groups.tolist(), (3, 5, 5)))
