import numpy as np
import pytest
from tests.golden.outside import put_into
from tests.techniques.test_length_bucketing import COUNT, applied, masked, plain, samples, train

from hotloop.observe.probes.dataset_trial import can_fork
from hotloop.techniques.token_budget import TECHNIQUE

pytestmark = pytest.mark.skipif(not can_fork(), reason="no fork here")


def costs(seen):
    return [len(at) * width for at, width in seen]


def test_an_epoch_has_as_many_steps_as_before_which_cost_alike():
    seen, effects = put_into(lambda: train(masked()), "token-budget")
    said = effects["token-budget"]
    assert said.word == "in effect", said
    assert "of about as many tokens each (" in said.how
    few, many = (int(part) for part in said.how.split("(")[1].split(" rows")[0].split(" to "))
    assert few < 8 < many
    for epoch in (seen[:15], seen[15:]):
        assert samples(epoch) == list(range(COUNT))
        assert len({len(at) for at, _ in epoch}) > 2
    bucketed, _ = put_into(lambda: train(masked()), "length-bucketing")
    assert len(seen) == len(bucketed) == 30
    assert np.std(costs(seen)) < 0.6 * np.std(costs(bucketed))
    assert max(costs(seen)) < max(costs(bucketed))


def test_more_tokens_make_fewer_steps_and_it_is_said():
    seen, effects = put_into(lambda: train(masked(), 1), "token-budget:tokens=600")
    said = effects["token-budget"]
    assert said.word == "in effect", said
    assert samples(seen) == list(range(COUNT))
    assert len(seen) < 15
    made = f"{len(seen)} an epoch, and len(loader) is 15: schedules by it end early"
    assert f"of about 600 tokens ({made}; " in said.how
    assert all(cost <= 600 for cost in costs(seen))


def test_fewer_tokens_than_make_as_many_batches_are_refused_with_the_number_that_does():
    refused = applied(plain(), TECHNIQUE, tokens=50).refused
    assert refused.startswith("50 tokens would make more batches than the 15 the loop counts on; ")
    least = int(refused.split("; ")[1].split()[0].replace(",", ""))
    assert applied(plain(), TECHNIQUE, tokens=least).refused is None
    assert applied(plain(), TECHNIQUE, tokens=least - 1).refused is not None


def test_a_loop_that_may_count_on_full_batches_is_left_alone():
    put = applied(plain(drop_last=True), TECHNIQUE)
    assert "batches of one size" in put.refused
    assert put.loader_changes == {}


def test_what_length_bucketing_refuses_it_refuses_too():
    assert "order of a SequentialSampler" in applied(plain(shuffle=False), TECHNIQUE).refused


def test_lengths_that_are_learned_are_used_from_the_second_epoch_on():
    seen, effects = put_into(lambda: train(masked()), "token-budget:lengths=learn:tokens=600")
    said = effects["token-budget"].how
    assert "of about 600 tokens, perhaps fewer an epoch than len(loader) from the second" in said
    assert {len(at) for at, _ in seen[:15]} == {8}
    assert len(seen[15:]) < 15
    assert samples(seen[15:]) == list(range(COUNT))


def test_a_script_that_pads_to_the_longest_is_not_cut():
    said = TECHNIQUE.read_back(applied(plain(), TECHNIQUE))
    assert said.startswith("batches are of about as many tokens each (")
    assert "cut" not in said
