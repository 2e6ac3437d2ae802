"""The model's calls of a step are made again with more rows, or with shorter ones."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from hotloop.observe.experiments.model_calls import ModelCalls
from hotloop.observe.experiments.resized_inputs import ResizingError
from hotloop.observe.whatif.without_one_cost import Patches


class Noted(nn.Module):
    """A model that notes the shapes of its inputs; the mask says what is padding."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.seen: list[tuple[int, ...]] = []

    def forward(self, x, *, mask=None):
        self.seen.append(tuple(x.shape) if mask is None else (*x.shape, *mask.shape))
        return {"logits": self.layer(x)}


@contextmanager
def watched() -> Iterator[ModelCalls]:
    calls, patches = ModelCalls(lambda: None), Patches()
    calls.watch(patches)
    try:
        yield calls
    finally:
        patches.undo()


def test_micro_batches_are_joined_and_gradients_are_given_back():
    model = Noted()
    with watched() as calls:
        for rows in torch.randn(6, 2, 3, 4):
            model(rows)["logits"].sum().backward()
    before = model.layer.weight.grad.clone()
    model.seen.clear()
    timed = calls.joined()
    assert {shape[0] for shape in model.seen} == {2, 4, 8, 12}
    assert timed.joined in (2, 4, 6)
    assert all(plain > 0 and joined > 0 for plain, joined in timed.rounds)
    assert torch.equal(model.layer.weight.grad, before)


@pytest.mark.parametrize("passes", ["no backward", "one backward for two", "two lines"])
def test_other_calls_are_not_joined(passes: str):
    model, x = Noted(), torch.randn(2, 3, 4)
    with watched() as calls:
        if passes == "two lines":
            model(x)["logits"].sum().backward()
            model(x)["logits"].sum().backward()
        else:
            total = sum(model(x)["logits"].sum() for _ in range(4))
            if passes != "no backward":
                total.backward()
    with pytest.raises(ResizingError, match="once for each backward pass"):
        calls.joined()


def test_steps_of_a_rollout_are_not_joined():
    model, state = Noted(), torch.randn(2, 3, 4)
    with watched() as calls:
        for _ in range(4):
            state = model(state)["logits"]
            state.sum().backward(retain_graph=True)
    with pytest.raises(ResizingError, match="what other calls returned"):
        calls.joined()


def test_calls_of_one_backward_pass_are_joined():
    model = Noted()
    with watched() as calls:
        sum(model(rows)["logits"].sum() for rows in torch.randn(8, 1, 4)).backward()
    model.seen.clear()
    timed = calls.of_one_pass()
    assert {shape[0] for shape in model.seen} == {1, 2, 4, 8}
    assert timed.joined in (2, 4, 8)
    assert all(plain > 0 and joined > 0 for plain, joined in timed.rounds)


def test_calls_of_single_samples_become_a_batch():
    model = nn.Sequential(nn.Conv1d(4, 3, 2), nn.Flatten(-2))
    with watched() as calls:
        sum(model(sample).sum() for sample in torch.randn(8, 4, 9)).backward()
    assert calls.of_one_pass().joined in (2, 4, 8)


def test_graphs_whose_edges_would_stay_are_not_joined():
    class Graph(nn.Linear):
        def forward(self, x, edges):
            return super().forward(x).index_add(0, edges[1], x[edges[0]])

    model = Graph(4, 4)
    with watched() as calls:
        graphs = [(torch.randn(5, 4), torch.randint(5, (2, 9))) for _ in range(8)]
        sum(model(*graph).sum() for graph in graphs).backward()
    with pytest.raises(ResizingError, match="different numbers of rows"):
        calls.of_one_pass()


@pytest.mark.parametrize("kind", ["one call", "a rollout", "no gradients"])
def test_calls_that_are_few_or_need_each_other_are_not_joined(kind: str):
    model, state = Noted(), torch.randn(1, 4)
    with watched() as calls:
        with torch.set_grad_enabled(kind != "no gradients"):
            for _ in range(1 if kind == "one call" else 6):
                outputs = model(state)["logits"]
                state = outputs if kind == "a rollout" else state
        if kind != "no gradients":
            outputs.sum().backward()
    said = "what other calls returned" if kind == "a rollout" else "several times for a backward"
    with pytest.raises(ResizingError, match=said):
        calls.of_one_pass()


def test_rows_are_cut_with_their_masks():
    model = Noted()
    with watched() as calls:
        model(torch.randn(2, 10, 4), mask=torch.ones(2, 1, 10, 10))["logits"].sum().backward()
    model.seen.clear()
    calls.cut(0.3)
    assert set(model.seen) == {(2, 10, 4, 2, 1, 10, 10), (2, 3, 4, 2, 1, 3, 3)}


def test_a_second_input_of_tokens_is_cut_by_its_own_width():
    model, seen = nn.Embedding(9, 4), []

    class Translator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = model

        def forward(self, source, target):
            seen.append((source.shape[1], target.shape[1]))
            return self.table(source).sum(1) + self.table(target).sum(1)

    translator = Translator()
    with watched() as calls:
        source, target = torch.randint(9, (2, 10)), torch.randint(9, (2, 20))
        translator(source, target).sum().backward()
    calls.cut(0.5)
    assert set(seen) == {(10, 20), (5, 10)}
    seen.clear()
    calls.cut(0.5, 20)  # padded labels alone
    assert set(seen) == {(10, 20), (10, 10)}


def test_a_model_of_one_width_is_refused_by_its_own_error():
    model = nn.Sequential(nn.Flatten(), nn.Linear(40, 2))
    with watched() as calls:
        model(torch.randn(2, 10, 4)).sum().backward()
    with pytest.raises(ResizingError, match="does not take such inputs"):
        calls.cut(0.5)


def test_what_a_step_does_between_its_passes_is_told_apart():
    model, x = Noted(), torch.randn(2, 3, 4)
    with watched() as calls:
        model(x)["logits"].sum().backward()
        time.sleep(0.05)
        assert not calls.seen
        calls.ended_step()
    assert calls.seen
    assert 0.5 < calls.between < 1
