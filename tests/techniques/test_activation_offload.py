"""Activation offload beside recomputation: both are read back, and both can be undone."""

from tests.golden import jobs

from hotloop.techniques import activation_checkpointing, activation_offload


def test_it_stands_around_recomputed_blocks():
    session = jobs.session_of()
    activation_checkpointing.apply(session, mode="full")
    assert activation_offload.apply(session) == 2
    assert activation_offload.read_back(session) == "2 of 2 blocks save in host memory"
    assert activation_checkpointing.read_back(session) == "full: 2 of 2 blocks recompute"
    session.undo[activation_offload.ID]()
    assert activation_offload.read_back(session) is None
    assert activation_checkpointing.read_back(session) == "full: 2 of 2 blocks recompute"


def test_without_recomputation_the_blocks_are_plain_again():
    session = jobs.session_of()
    activation_offload.apply(session)
    session.undo[activation_offload.ID]()
    assert all("forward" not in vars(block) for block in session.model.blocks)
