from hotloop.core.case.environment import ProcessFacts


def test_a_rank_is_named_with_its_machine_where_that_is_known():
    assert ProcessFacts(world=2).named(1) == "process 1"
    both = ProcessFacts(world=2, hosts=("node-a", "node-b"))
    assert (both.named(0), both.named(1)) == ("process 0 (on node-a)", "process 1 (on node-b)")
    assert ProcessFacts(world=2, hosts=("node-a",)).named(1) == "process 1", "an edited file"


def test_figures_keep_the_numbers_of_their_ranks_when_one_is_missing():
    assert ProcessFacts(world=3).rank_at(1) == 1
    assert ProcessFacts(world=3, ranked=(0, 2)).rank_at(1) == 2
