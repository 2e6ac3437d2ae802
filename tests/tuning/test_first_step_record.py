import json
import math

import pytest
import torch
from torch import nn

from hotloop.core.agreement import Evidence
from hotloop.tuning.first_step_record import STEPS, Witness


def told(witness: Witness) -> Evidence:
    """What goes over the line, as text."""
    return Evidence(**json.loads(json.dumps(dict(witness.news()))))


def step(witness: Witness, *groups, scale=None) -> None:
    witness.gradients(groups, scale=scale)
    witness.stepped()


def parameter(*gradient: float) -> nn.Parameter:
    tensor = nn.Parameter(torch.zeros(len(gradient)))
    tensor.grad = torch.tensor(gradient)
    return tensor


def test_it_says_losses_norms_and_the_first_gradients_once_all_steps_were_seen():
    witness, weights = Witness(), parameter(3.0, 4.0)
    for number in range(STEPS):
        assert set(witness.news()) == {"late"}
        witness.loss(torch.tensor(float(number)))
        weights.grad = torch.tensor([3.0, 4.0]) * (number + 1)
        step(witness, [weights])
    found = told(witness)
    assert found.losses == [float(number) for number in range(STEPS)]
    assert found.norms == [5.0 * (number + 1) for number in range(STEPS)]
    assert (found.tensors, found.samples) == ({"0.0": 5.0}, {"0.0": [3.0, 4.0]})
    assert set(witness.news()) == {"late"}, "it is said once"


def test_later_losses_are_said_block_by_block():
    witness = Witness()
    for _ in range(STEPS):
        witness.stepped()
    witness.loss(torch.tensor(7.0))
    witness.loss(torch.tensor(6.0))
    assert told(witness).late == [7.0, 6.0]
    assert told(witness).late == []


def test_with_accumulation_there_is_a_loss_of_each_pass_and_a_norm_of_each_step():
    witness, weights = Witness(), parameter(1.0)
    for number in range(2 * STEPS):
        witness.loss(torch.tensor(0.5))
        if number % 2:
            step(witness, [weights])
    found = told(witness)
    assert (len(found.losses), len(found.norms)) == (2 * STEPS, STEPS)
    assert found.passes == [2] * STEPS
    assert found.by_step().losses == [1.0] * STEPS
    for number in range(3):
        witness.loss(torch.tensor(float(number)))
    witness.stepped()
    later = told(witness)
    assert (later.late, later.late_passes) == ([0.0, 1.0, 2.0], [3])


def test_what_a_scaler_multiplied_is_divided_again():
    witness, weights = Witness(), parameter(3 * 1024.0, 4 * 1024.0)
    for _ in range(STEPS):
        step(witness, [weights], scale=torch.tensor(1024.0))
    found = told(witness)
    assert found.norms == [5.0] * STEPS
    assert found.tensors == {"0.0": 5.0}


def test_sparse_gradients_are_read_where_they_have_values():
    table = nn.Embedding(10_000, 2, sparse=True)
    table(torch.tensor([3, 3, 7])).sum().backward()
    witness = Witness()
    for _ in range(STEPS):
        step(witness, table.parameters())
    found = told(witness)
    assert found.samples == {"0.0": [2.0, 2.0, 1.0, 1.0]}
    assert found.norms[0] == pytest.approx(math.sqrt(10))


def test_an_empty_sparse_gradient_is_no_trouble():
    table = nn.Parameter(torch.zeros(4, 2))
    table.grad = torch.sparse_coo_tensor(
        torch.zeros(1, 0), torch.zeros(0, 2), (4, 2), check_invariants=True
    )
    witness = Witness()
    for _ in range(STEPS):
        step(witness, [table])
    assert told(witness).samples == {"0.0": []}


def test_several_optimizers_take_turns_and_groups_have_names_of_their_own():
    witness, one, two = Witness(), parameter(1.0), parameter(2.0)
    for number in range(STEPS):
        step(witness, *([[one], [two]] if number % 2 == 0 else [[two]]))
    found = told(witness)
    assert found.samples == {"0.0": [1.0], "1.0": [2.0]}
    assert found.norms == pytest.approx([math.sqrt(5), 2.0] * (STEPS // 2))


def test_what_is_not_a_number_goes_over_the_line():
    witness, weights = Witness(), parameter(math.nan, 1.0)
    witness.loss(torch.tensor(math.nan))
    for _ in range(STEPS):
        step(witness, [weights])
    found = told(witness)
    assert math.isnan(found.losses[0])
    assert math.isnan(found.norms[0])


def sampled(gradient):
    witness, large = Witness(), nn.Parameter(torch.zeros_like(gradient))
    large.grad = gradient
    for _ in range(STEPS):
        step(witness, [large])
    return told(witness).samples["0.0"]


def test_a_large_gradient_is_sampled_at_the_same_places_in_each_trial():
    places = torch.arange(1024.0 * 1024).reshape(1024, 1024)
    assert sampled(places) == sampled(places)
    assert len(sampled(places)) == 256


def test_no_row_or_column_of_a_square_gradient_is_all_that_is_seen():
    columns = {place % 1024 for place in sampled(torch.arange(1024.0 * 1024).reshape(1024, 1024))}
    rows = {place // 1024 for place in sampled(torch.arange(1024.0 * 1024).reshape(1024, 1024))}
    assert len(columns) > 200
    assert len(rows) > 200


def test_sampling_leaves_the_random_stream_of_the_script_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    sampled(torch.ones(3000))
    assert torch.equal(torch.rand(1), expected)


def test_many_tensors_share_what_is_kept():
    crowd, many = Witness(), [parameter(*[1.0] * 300) for _ in range(2000)]
    for _ in range(STEPS):
        step(crowd, many if crowd.steps == 0 else many[:1])
    assert max(map(len, told(crowd).samples.values())) == 100


def test_parameters_without_a_gradient_are_passed_over_and_keep_the_others_names():
    frozen = nn.Parameter(torch.zeros(2))
    witness = Witness()
    for _ in range(STEPS):
        step(witness, [frozen, parameter(1.0)])
    assert set(told(witness).tensors) == {"0.1"}


def test_a_step_without_any_gradient_has_no_norm():
    witness = Witness()
    for _ in range(STEPS):
        step(witness, [nn.Parameter(torch.zeros(2))])
    assert told(witness).norms == []


@pytest.mark.parametrize("value", [torch.zeros(3), [torch.zeros(2)], [], None, "loss"])
def test_what_is_no_single_number_is_no_loss(value):
    witness = Witness()
    witness.loss(value)
    for _ in range(STEPS):
        witness.stepped()
    assert told(witness).losses == []


def test_a_loss_in_a_list_and_one_in_low_precision_are_losses():
    witness = Witness()
    witness.loss([torch.tensor([2.5])])
    witness.loss(torch.tensor(1.5, dtype=torch.bfloat16))
    for _ in range(STEPS):
        witness.stepped()
    assert told(witness).losses == [2.5, 1.5]


def test_a_loss_is_kept_as_it_was_though_the_script_goes_on_with_it():
    witness, total = Witness(), torch.tensor(1.0)
    witness.loss(total)
    total += 5
    for _ in range(STEPS):
        witness.stepped()
    assert told(witness).losses == [1.0]
