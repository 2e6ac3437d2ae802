import pytest
import torch
from benchmarks.shifted_loss import shifted_loss
from torch.nn import functional


def test_each_label_is_predicted_from_the_place_before():
    torch.manual_seed(0)
    logits = torch.randn(2, 4, 5, requires_grad=True)
    labels = torch.tensor([[3, -100, 2, 1], [-100, 4, -100, -100]])
    expected = functional.cross_entropy(
        torch.stack([logits[0, 1], logits[0, 2], logits[1, 0]]), torch.tensor([2, 1, 4])
    )
    loss = shifted_loss(logits, labels)
    assert loss.item() == pytest.approx(expected.item())
    loss.backward()
    used = logits.grad.abs().sum(-1) > 0
    assert used.tolist() == [[False, True, True, False], [True, False, False, False]]


def test_a_batch_without_labels_teaches_nothing():
    logits = torch.randn(1, 3, 5, requires_grad=True)
    loss = shifted_loss(logits, torch.full((1, 3), -100))
    loss.backward()
    assert loss.item() == 0
    assert torch.count_nonzero(logits.grad) == 0
