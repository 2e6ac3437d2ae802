import pytest
from tests.manyranks import GIB, OWN, add, hostile_ranks, log, made, slowed

from hotloop.core.storage.rank_logs import ranks_of


def of(run):
    return ranks_of(run, run.read())


def test_each_rank_has_its_own_times_and_its_waits_apart(tmp_path):
    run = made(tmp_path / "run", own=slowed(1, data=5.0), travels=0.004, hosts=["a", "b"])
    found = of(run)
    assert (found.world, found.backend, found.hosts) == (2, "gloo", ("a", "b"))
    assert found.gaps == ()
    assert found.whole
    assert found.steps == 37, "the three of the warm-up are left out"
    fast, slow = found.each
    assert (fast.number, fast.host, slow.number, slow.host) == (0, "a", 1, "b")
    assert fast.own == pytest.approx(OWN)
    assert slow.own == pytest.approx({**OWN, "data": 0.05})
    assert (fast.exchange, slow.exchange) == (pytest.approx(0.044), pytest.approx(0.004))
    assert fast.step == slow.step == pytest.approx(0.144)
    assert (fast.memory, fast.tokens) == (GIB, 800)
    assert found.tokens == dict.fromkeys(range(1, 41), 1600)


def test_one_process_has_no_ranks(tmp_path):
    assert of(made(tmp_path / "run", world=1)) is None


@pytest.mark.parametrize("told", hostile_ranks(), ids=lambda told: str(told)[:40])
def test_a_record_of_wrong_types_is_one_process(tmp_path, told):
    assert of(made(tmp_path / "run", record={"ranks": told})) is None


@pytest.mark.parametrize("hosts", [["a"], ["a", 3], "ab", None, {"a": "b", "c": "d"}])
def test_hosts_that_are_none_are_unknown(tmp_path, hosts):
    told = {"world": 2, "backend": 7, "hosts": hosts}
    found = of(made(tmp_path / "run", record={"ranks": told}))
    assert (found.hosts, found.backend) == ((), None)
    assert [rank.host for rank in found.each] == [None, None]


def test_a_rank_without_a_log_is_said_and_the_others_are_compared(tmp_path):
    found = of(made(tmp_path / "run", world=3, leave_out=[1]))
    assert [rank.number for rank in found.each] == [0, 2]
    assert found.tokens == {}
    assert not found.whole
    (gap,) = found.gaps
    assert gap.startswith("rank 1 of 3 left no log (events-r1.jsonl)")


def test_without_the_log_of_the_first_nothing_is_compared(tmp_path):
    found = of(made(tmp_path / "run", leave_out=[0]))
    assert found.each == ()
    assert "rank 0 of 2 left no log" in found.gaps[0]


def test_of_many_that_left_nothing_the_first_are_named(tmp_path):
    found = of(made(tmp_path / "run", world=20, leave_out=range(1, 20)))
    assert "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 11 more of 20 left no log" in found.gaps[0]


def test_a_torn_last_line_and_lines_that_others_lack_are_left_out(tmp_path):
    run = made(tmp_path / "run", end=False)
    with run.events_file(1).open("r+") as stream:
        lines = stream.readlines()[:-6]
        stream.seek(0)
        stream.truncate()
        stream.write("".join(lines) + lines[-1][:30])
    found = of(run)
    assert found.gaps == ()
    assert found.steps < 37
    assert max(found.tokens) < 40


@pytest.mark.parametrize("damage", ["[]\n", '{"v":1,"kind":"step","step":5}\n', "{\n"])
def test_a_damaged_log_is_said(tmp_path, damage):
    run = made(tmp_path / "run")
    with run.events_file(1).open("a") as stream:
        stream.write(damage)
    found = of(run)
    assert "events-r1.jsonl:" in found.gaps[0]
    assert "is not an event" in found.gaps[0]
    assert [rank.number for rank in found.each] == [0, 1]


@pytest.mark.parametrize("worst", ["NaN", "1e999", "-1.0", "1" + "0" * 400])
def test_hostile_numbers_are_no_times(tmp_path, worst):
    run = made(tmp_path / "run")
    path = run.events_file(1)
    lines = path.read_text().splitlines(keepends=True)
    lines[10] = lines[10].replace('"forward":0.0300000', f'"forward":{worst}')
    path.write_text("".join(lines))
    found = of(run)
    assert found.gaps or found.steps == 36
    assert all(rank.own["forward"] == pytest.approx(0.03) for rank in found.each)


def test_after_ranks_came_or_went_the_newest_session_counts(tmp_path):
    run = made(tmp_path / "run", world=4, own=slowed(3, data=9.0), end=False)
    run.update(ranks={"world": 2, "backend": "gloo", "hosts": ["a", "b"]})
    for rank in (0, 1):
        add(run, rank, log(rank, 2, numbers=range(31, 51), own=slowed(1, forward=2.0)))
    found = of(run)
    assert [rank.number for rank in found.each] == [0, 1]
    assert found.steps == 17
    assert found.each[0].exchange == pytest.approx(0.03)
    assert found.gaps == ()
    assert set(found.tokens) == set(range(31, 51))


def test_a_rank_that_wrote_nothing_since_the_resume_is_not_judged_by_its_past(tmp_path):
    run = made(tmp_path / "run", end=False)
    add(run, 0, log(0, 2, numbers=range(31, 51), own=slowed(0)))
    found = of(run)
    assert [rank.number for rank in found.each] == [0]
    assert "rank 1 of 2 wrote no step after the warm-up in the newest session" in found.gaps[0]


def test_a_session_of_few_steps_is_not_compared(tmp_path):
    found = of(made(tmp_path / "run", steps=3))
    assert found.each == ()
    assert "ranks 0, 1 of 2 wrote no step after the warm-up" in found.gaps[0]


def test_memory_that_a_rank_did_not_read_is_said(tmp_path):
    found = of(made(tmp_path / "run", memory=[GIB, None]))
    assert [rank.memory for rank in found.each] == [GIB, None]
    assert found.gaps == ("memory was not compared: rank 1 of 2 wrote no reading of it",)


def test_the_hosts_clock_says_nothing_of_a_gpu(tmp_path):
    found = of(made(tmp_path / "host", device="cuda"))
    assert all((r.step, r.own, r.exchange) == (None, {}, None) for r in found.each)
    assert [rank.memory for rank in found.each] == [GIB, GIB]
    assert "the host runs ahead of its GPU" in found.gaps[0]
    found = of(made(tmp_path / "device", device="cuda", clock="device"))
    assert found.gaps == ()
    assert found.each[0].own == pytest.approx(OWN)
