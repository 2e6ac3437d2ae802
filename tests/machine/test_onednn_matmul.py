import torch

from hotloop.machine.onednn_matmul import compare_products, paired_rate


class Work:
    """Moves the clock by the seconds that each call takes, the last of them again and again."""

    now = 0.0

    def __init__(self, *takes: float) -> None:
        self.takes = list(takes)

    def __call__(self) -> None:
        Work.now += self.takes.pop(0) if len(self.takes) > 1 else self.takes[0]


def test_products_are_compared_and_nothing_stays() -> None:
    threads, random = torch.get_num_threads(), torch.get_rng_state()
    found = compare_products()
    assert 1e-8 < found.relative_error < 1e-2
    assert found.rate == 1.0 if found.same_bits else found.rate > 0
    assert torch.get_num_threads() == threads
    assert torch.get_float32_matmul_precision() == "highest"
    assert torch.equal(torch.get_rng_state(), random)
    assert compare_products() is found, "measured once per process"


def test_the_rate_is_that_of_most_pairs_whatever_some_of_them_met() -> None:
    stalls = [100.0] * 7
    for new, old in ((Work(1.0), Work(2.0)), (Work(*stalls, 1.0), Work(2.0))):
        assert paired_rate(new, old, clock=lambda: Work.now) == 2.0
    assert paired_rate(Work(1.0), Work(*stalls, 2.0), clock=lambda: Work.now) == 2.0
    assert paired_rate(Work(4.0), Work(2.0), clock=lambda: Work.now) == 0.5
