from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch.distributed as dist

from hotloop.core.errors import LostRankError
from hotloop.distributed.rendezvous import meet


@pytest.fixture
def store():
    return dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)


def client(store) -> dist.TCPStore:
    return dist.TCPStore("localhost", store.port, is_master=False, wait_for_workers=False)


def met(store, world: int) -> list[int]:
    with ThreadPoolExecutor(world) as pool:
        ranks = [pool.submit(meet, client(store), rank=rank, world=world) for rank in range(world)]
        return [rank.result(timeout=30) for rank in ranks]


def test_groups_of_any_size_that_meet_in_one_store_are_told_apart(store):
    found = [met(store, world) for world in (3, 3, 1, 2, 4)]
    assert found == [[1] * 3, [2] * 3, [3], [4] * 2, [5] * 4]


def test_what_a_group_that_never_met_left_behind_does_no_harm(store):
    store.set("call/1", "somebody who was killed")
    store.set("heard/1/2", "")
    with pytest.raises(LostRankError, match=r"ranks \[1\] of 3 did not come in 0 s"):
        meet(store, rank=0, world=3, patience=timedelta(seconds=0.1))
    assert met(store, 3) == [2] * 3


def test_a_rank_whose_first_one_does_not_come_gives_up(store):
    with pytest.raises(dist.DistStoreError):
        meet(store, rank=1, world=2, patience=timedelta(seconds=0.1))
