"""Prompts among the labels, by the field that says how long they are."""

import pytest
import torch

from hotloop.observe.probes.prompts import labelled_prompts

IDS = torch.arange(5, 29).reshape(2, 12)
LENGTHS = torch.tensor([4, 6])


def masked(fill=-100):
    labels = IDS.clone()
    for row, length in zip(labels, LENGTHS.tolist(), strict=True):
        row[:length] = fill
    return labels


@pytest.mark.parametrize("name", ["prompt_len", "source_length", "batch.question_lens"])
def test_the_labels_hold_the_prompts(name):
    batch = {"input_ids": IDS, "labels": IDS.clone(), name: LENGTHS}
    assert labelled_prompts(batch, "input_ids", "labels") == (name, 10 / 24)


@pytest.mark.parametrize(
    ("labels", "more"),
    [
        (masked(), {"prompt_len": LENGTHS}),
        (IDS, {"lengths": LENGTHS}),
        (IDS, {"prompt_len": torch.tensor([12, 12])}),  # nothing but a prompt
        (IDS, {"prompt_len": LENGTHS.float()}),
        (IDS[:, 1:], {"prompt_len": LENGTHS}),
        (IDS[:, 0], {"prompt_len": LENGTHS}),
        (IDS, {}),
    ],
)
def test_other_batches_have_none(labels, more):
    assert (
        labelled_prompts({"input_ids": IDS, "labels": labels, **more}, "input_ids", "labels")
        is None
    )
