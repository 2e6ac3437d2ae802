import math
from dataclasses import replace

import pytest

from hotloop.core.agreement import Evidence, Promise, Rounding, agree, noise, rounding

BASE = Evidence(
    losses=(2.0, 1.5, 1.2, 1.0),
    norms=(0.5, 0.4, 0.3, 0.2),
    tensors={"0.0": 0.4, "0.1": 0.3},
    samples={"0.0": (1.0, 2.0, -1.0), "0.1": (0.5, -0.5, 0.1)},
)
BITWISE = Promise()
ROUNDING = Promise(tolerance=1e-5, cosine=1 - 1e-9)


def test_equal_numbers_keep_the_strictest_promise():
    found = agree(BASE, BASE, BITWISE)
    assert found.kept
    assert found.why == "4 losses equal bit for bit"


def test_a_baseline_that_is_none_itself_can_be_compared_with_nothing():
    for bad in (replace(BASE, losses=(math.nan,) * 4), replace(BASE, norms=(math.inf,) * 4)):
        found = agree(bad, BASE, ROUNDING)
        assert found.kept is None
        assert "of the baseline is" in found.why
    assert agree(BASE, replace(BASE, losses=(math.nan,) * 4), ROUNDING).kept is False


def test_a_last_digit_breaks_bitwise_and_keeps_rounding():
    near = replace(BASE, losses=(2.0, 1.5000001, 1.2, 1.0))
    assert agree(BASE, near, BITWISE).kept is False
    found = agree(BASE, near, ROUNDING)
    assert found.kept
    assert "within 6.7e-08" in found.why


def test_low_precision_that_claims_bitwise_is_caught():
    low = replace(BASE, losses=tuple(loss * (1 + 2e-4) for loss in BASE.losses))
    found = agree(BASE, low, BITWISE)
    assert found.kept is False
    assert "losses differ: 1.20024 instead of 1.2 at the third (2.0e-04" in found.why


@pytest.mark.parametrize("factor", [4, 1 / 4])
def test_a_loss_scaled_by_the_accumulation_is_named(factor):
    scaled = replace(BASE, losses=tuple(loss * factor for loss in BASE.losses))
    found = agree(BASE, scaled, ROUNDING)
    assert found.kept is False
    assert "a ratio of 4 is a sum taken for a mean, or scaled by accumulation" in found.why


def test_gradients_scaled_alone_are_caught_by_their_norms():
    scaled = replace(BASE, norms=tuple(norm * 2 for norm in BASE.norms))
    assert "gradient norms differ" in agree(BASE, scaled, ROUNDING).why


def test_a_wrong_gradient_under_equal_losses_is_caught():
    wrong = replace(BASE, samples={**BASE.samples, "0.1": (0.5, 0.5, 0.1)})
    found = agree(BASE, wrong, ROUNDING)
    assert found.kept is False
    assert "the first gradient of tensor 0.1 points elsewhere" in found.why


def test_a_gradient_turned_round_or_missing_is_caught():
    turned = replace(BASE, samples={**BASE.samples, "0.0": (-1.0, -2.0, 1.0)})
    assert agree(BASE, turned, ROUNDING).kept is False
    less = replace(BASE, tensors={"0.0": 0.4}, samples={"0.0": (1.0, 2.0, -1.0)})
    assert "other parameters have gradients" in agree(BASE, less, ROUNDING).why


def test_a_tensor_with_next_to_no_gradient_may_point_anywhere():
    base = replace(BASE, tensors={**BASE.tensors, "0.1": 1e-9})
    turned = replace(base, samples={**BASE.samples, "0.1": (-0.5, 0.5, -0.1)})
    assert agree(base, turned, ROUNDING).kept


def test_the_noise_of_the_baseline_widens_what_is_allowed():
    other = replace(BASE, losses=tuple(loss * 1.001 for loss in BASE.losses))
    seen = noise(BASE, other)
    assert seen == pytest.approx(1e-3)
    farther = replace(BASE, losses=tuple(loss * 1.002 for loss in BASE.losses))
    assert agree(BASE, farther, BITWISE, noise=seen).kept
    assert agree(BASE, farther, BITWISE).kept is False


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_never_kept(bad):
    found = agree(BASE, replace(BASE, losses=(2.0, bad, 1.2, 1.0)), Promise(tolerance=1e9))
    assert found.kept is False


def test_other_numbers_of_backward_passes_are_another_training():
    found = agree(BASE, replace(BASE, losses=(2.0, 1.5)), ROUNDING)
    assert found.why == "2 backward passes instead of 4 in the same steps"


def test_without_losses_or_gradients_nothing_can_be_told():
    assert agree(Evidence(), BASE, ROUNDING).kept is None
    bare = replace(BASE, tensors={}, samples={})
    assert agree(bare, bare, ROUNDING).kept is None


def late(*losses: float) -> Evidence:
    return replace(BASE, late=losses)


def test_another_training_is_judged_by_what_it_learns():
    base = late(*(1.0 + 0.01 * (n % 5) for n in range(40)))
    alike = late(*(1.0 + 0.01 * ((n + 2) % 5) for n in range(40)))
    worse = late(*(1.1 + 0.01 * (n % 5) for n in range(40)))
    training = Promise(is_training=True)
    assert agree(base, alike, training).kept
    found = agree(base, worse, training)
    assert found.kept is False
    assert found.why.startswith("it learns less: mean loss of the same 40 steps 1.12 against 1.02")
    assert agree(base, late(1.0, 1.0), training).kept is None


def test_a_baseline_that_does_not_repeat_itself_proves_nothing():
    wrong = replace(BASE, losses=tuple(loss / 4 for loss in BASE.losses))
    found = agree(BASE, wrong, ROUNDING, noise=0.7)
    assert found.kept is None
    assert "set a seed" in found.why


def test_one_tensor_with_another_norm_is_caught():
    other = replace(BASE, tensors={**BASE.tensors, "0.1": 0.3 / 4})
    found = agree(BASE, other, ROUNDING)
    assert found.kept is False
    assert "the first gradient of tensor 0.1 has another norm" in found.why


def test_fewer_optimizer_steps_are_another_training():
    found = agree(BASE, replace(BASE, norms=(0.5, 0.4)), ROUNDING)
    assert found.why == "2 optimizer steps instead of 4"


def test_bitwise_is_held_over_all_steps_that_both_made():
    base, alike = late(2.0, 1.9, 1.8), late(2.0, 1.9)
    assert agree(base, alike, BITWISE).why == "6 losses equal bit for bit"
    found = agree(base, late(2.0, 1.95), BITWISE)
    assert found.kept is False
    assert "later losses differ" in found.why


def test_what_another_order_of_sums_does_in_the_baselines_precision_is_allowed_where_sums_differ():
    turned = {"0.0": (1.0, 2.001, -1.0), "0.1": (0.5, -0.5, 0.1)}
    again = replace(BASE, losses=(2.0, 1.5001, 1.2, 1.0), samples=turned)
    order = rounding(BASE, again)
    assert order is not None
    assert order.steps == pytest.approx(1e-4 / 1.5)
    assert order.tensors == pytest.approx(2.36e-4, rel=0.01)
    assert agree(BASE, again, ROUNDING).kept is False
    assert agree(BASE, again, ROUNDING, order=order).kept
    assert agree(BASE, again, BITWISE, order=order).kept is False
    far = replace(BASE, losses=(2.0, 1.501, 1.2, 1.0))
    assert agree(BASE, far, ROUNDING, order=order).kept is False


def test_backward_passes_of_smaller_micro_batches_are_held_against_the_same_steps():
    halves = (2.1, 1.9, 1.6, 1.4, 1.3, 1.1, 1.0, 1.0)
    found = rounding(BASE, replace(BASE, losses=halves))
    assert found is not None
    assert found.steps == pytest.approx(0, abs=1e-15)


def test_steps_of_other_numbers_of_backward_passes_are_compared_by_their_sums():
    four = replace(
        BASE, losses=(0.5, 0.5, 0.25, 0.75, 1.2), passes=(2, 2, 1), norms=(0.5, 0.4, 0.3)
    )
    two = replace(four, losses=(1.0, 1.0, 1.2), passes=(1, 1, 1))
    assert agree(four, two, ROUNDING).kept is False, "other numbers of losses"
    regrouped = replace(ROUNDING, regroups=True)
    assert agree(four, two, regrouped).kept
    assert "3 losses" in agree(four, two, regrouped).why
    mean = replace(two, losses=(0.5, 0.5, 1.2))
    found = agree(four, mean, regrouped)
    assert found.kept is False
    assert "a ratio of 2 is a sum taken for a mean" in found.why
    one_less = replace(two, losses=(1.0, 1.0), passes=(1, 1), norms=(0.5, 0.4))
    assert agree(four, one_less, regrouped).kept is False


def test_what_is_learned_with_other_numbers_of_passes_is_compared_by_the_sums_of_steps():
    shares = replace(BASE, passes=(1,) * 4, late=(0.5,) * 100, late_passes=(2,) * 50)
    whole = replace(shares, late=(1.0,) * 50, late_passes=(1,) * 50)
    learns = Promise(is_training=True, regroups=True)
    assert agree(shares, whole, learns).kept
    assert agree(shares, whole, Promise(is_training=True)).kept is False
    worse = replace(whole, late=(1.1,) * 50)
    assert "it learns less" in agree(shares, worse, learns).why


def test_a_baseline_that_is_far_from_itself_in_another_order_allows_nothing_more():
    for again in (
        replace(BASE, losses=(2.0, 1.5, 1.2, 2.0)),
        replace(BASE, norms=BASE.norms[:2]),
        replace(BASE, tensors={"0.0": 0.4}),
        Evidence(),
    ):
        assert rounding(BASE, again) is None
    assert agree(BASE, BASE, ROUNDING, order=Rounding(steps=0.1)).kept


def test_a_training_that_amplifies_a_rounding_is_compared_as_far_as_it_repeats_itself():
    # Weights changed by a rounding move the second loss by 1e-3 and the third by a fifth.
    nudged = replace(BASE, losses=(2.0, 1.5015, 1.44, 0.7), norms=(0.5, 0.4, 0.4, 0.1))
    moved = replace(BASE, losses=(2.0, 1.4985, 1.0, 1.3), norms=(0.5, 0.4, 0.25, 0.3))
    alone = agree(BASE, moved, ROUNDING)
    assert alone.kept is False
    assert alone.may_be_amplified
    found = agree(BASE, moved, ROUNDING, nudged=[nudged] * 3)
    assert found.kept
    assert (
        "4 losses within 3.0e-01 (first weights changed at random by 1.0e-05 move them by 3.0e-01"
        in found.why
    )

    far = replace(moved, losses=(2.0, 1.49, 1.0, 1.3))
    assert agree(BASE, far, ROUNDING, nudged=[nudged] * 3).kept is False, (
        "more than the rounding does"
    )
    early = replace(moved, losses=(2.1, 1.5, 1.0, 1.3))
    assert not agree(BASE, early, ROUNDING).may_be_amplified
    assert agree(BASE, early, ROUNDING, nudged=[nudged] * 3).kept is False, (
        "a nudge does not move the first loss"
    )
    turned = replace(moved, samples={**BASE.samples, "0.1": (0.5, 0.5, 0.1)})
    assert agree(BASE, turned, ROUNDING, nudged=[nudged] * 3).kept is False, (
        "nor the first gradients"
    )
    rotated = replace(nudged, samples={**BASE.samples, "0.1": (0.5, 0.4, 0.1)})
    assert agree(BASE, turned, ROUNDING, nudged=[rotated] * 3).kept, "unless it turns them"
    assert not agree(BASE, moved, BITWISE).may_be_amplified

    worse = replace(moved, late=(1.5,) * 40)
    found = agree(replace(BASE, late=(1.0,) * 40), worse, ROUNDING, nudged=[nudged] * 3)
    assert found.kept is False
    assert "it learns less" in found.why


def test_where_a_rounding_turns_every_gradient_nothing_is_told():
    turned = {name: tuple(-value for value in values) for name, values in BASE.samples.items()}
    nudged = replace(BASE, samples=turned)
    assert agree(BASE, nudged, ROUNDING).kept is False
    found = agree(BASE, nudged, ROUNDING, nudged=[nudged] * 3)
    assert found.kept is None
    assert "turn every gradient" in found.why


def test_a_training_that_amplifies_nothing_is_compared_at_each_step():
    moved = replace(BASE, losses=(2.0, 1.5, 1.0, 1.3))
    assert agree(BASE, moved, ROUNDING, nudged=[BASE] * 3).kept is False


def test_gradients_that_are_all_zero_can_be_compared():
    zero = replace(BASE, tensors={"0.0": 0.0, "0.1": 0.0}, samples={"0.0": (0.0,), "0.1": (0.0,)})
    assert agree(zero, zero, ROUNDING).kept
    assert agree(zero, replace(zero, tensors={"0.0": 0.0, "0.1": 0.5}), ROUNDING).kept is False
