import torch
from tests.golden.jobs import session_of
from tests.golden.machines import cpu

from hotloop import techniques
from hotloop.core.plan import Plan


def test_more_threads_than_cores_are_refused_and_unknown_cores_want_a_number() -> None:
    blocked = techniques.get("threads").blocked
    four = Plan(micro_batch=1).plus("threads", count=4)
    assert "4 threads on 2 cores" in (blocked(cpu(), four) or "")
    assert blocked(cpu(cores=4.0), four) is None
    assert blocked(cpu(cores=None), four) is None
    assert "2 threads on 1.5 cores" in (
        blocked(cpu(cores=1.5), Plan(micro_batch=1).plus("threads", count=2)) or ""
    )


def test_by_itself_the_thread_count_is_lowered_to_the_cores_and_never_raised() -> None:
    technique, before = techniques.get("threads"), torch.get_num_threads()
    session = session_of()
    try:
        for count, cores, want in ((4, 2.0, 2), (4, 2.9, 2), (4, 0.5, 1), (1, 2.0, 1)):
            torch.set_num_threads(count)
            session.hardware = cpu(cores=cores)
            assert technique.apply(session) == (want != count)
            assert torch.get_num_threads() == want
    finally:
        torch.set_num_threads(before)
