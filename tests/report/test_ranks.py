import json
import re

import pytest
from tests.manyranks import GIB, add, hostile_ranks, log, made, slowed
from tests.report.conftest import EVIL, Sound

from hotloop.report.facts import read_facts
from hotloop.report.figures import figures
from hotloop.report.page import page, ranks
from hotloop.report.wall import wall


def cells(section):
    """Return the text of a table's rows."""
    rows = re.findall(r"<tr role=\"row\">(.*?)</tr>", section)
    return [
        [re.sub("<.*?>", "", each) for each in re.findall(r"<t[hd].*?>(.*?)</t[hd]>", row)]
        for row in rows
    ]


def test_every_rank_has_a_row_and_all_of_them_a_rate(tmp_path):
    run = made(
        tmp_path / "run",
        own=slowed(1, data=4.0),
        travels=0.02,
        hosts=["node-a", "node-b"],
        memory=[GIB, 2 * GIB],
    )
    section = ranks(read_facts(run.path))
    head, first, second, last = cells(section)
    assert head == ["rank", "host", "step", "data wait", "forward", "backward", "update",
                    "exchange", "tokens/s", "memory"]  # fmt: skip
    assert first == ["0", "node-a", "150 ms", "10 ms", "30 ms", "50 ms", "10 ms", "50 ms",
                     "5.33k", "1 GiB"]  # fmt: skip
    assert second == ["1", "node-b", "150 ms", "40 ms", "30 ms", "50 ms", "10 ms", "20 ms",
                      "5.33k", "2 GiB"]  # fmt: skip
    assert last == ["all", "", "", "", "", "", "", "", "10.7k", ""]
    assert "the mean of 37 steps" in section
    assert "between them by gloo" in section
    assert "<li>" not in section, "nothing is missing"


def test_one_process_has_no_such_section(tmp_path):
    run = read_facts(made(tmp_path / "run", world=1).path)
    assert ranks(run) == ""
    assert "Ranks" not in page(run)
    assert all("rank" not in figure.rests_on for figure in figures(run))


def test_a_rank_without_a_log_is_said_and_no_sum_is_made(tmp_path):
    run = read_facts(made(tmp_path / "run", world=3, leave_out=[1]).path)
    section = ranks(run)
    assert [row[0] for row in cells(section)] == ["rank", "0", "2"]
    assert "rank 1 of 3 left no log" in section
    speed = next(figure for figure in figures(run) if figure.name == "throughput")
    assert (speed.shown, speed.rests_on) == ("unknown", "the logs of some ranks are missing")


def test_ranks_that_cannot_be_compared_are_said(tmp_path):
    section = ranks(read_facts(made(tmp_path / "run", steps=2).path))
    assert "The ranks cannot be compared." in section
    assert "no step after the warm-up" in section


def test_what_is_unknown_of_a_gpu_is_a_word(tmp_path):
    section = ranks(read_facts(made(tmp_path / "run", device="cuda", hosts=["a", "b"]).path))
    assert cells(section)[1] == ["0", "a", *["unknown"] * 7, "1 GiB"]
    assert "the host runs ahead of its GPU" in section


def test_throughput_is_that_of_all_ranks_and_the_rest_says_whose_it_is(tmp_path):
    run = read_facts(made(tmp_path / "run", world=4, tokens=[800, 800, 800, 1600]).path)
    assert run.throughput.median == pytest.approx(40_000)
    said = {figure.name: figure.rests_on for figure in figures(run)}
    assert said["throughput"].endswith("of all 4 ranks")
    assert said["steps"].endswith("32k tokens of rank 0")
    assert "of rank 0" in said["peak memory"]


def test_mfu_is_over_all_gpus_and_unknown_where_ranks_share_a_processor(tmp_path):
    peak = {"measured": {"fp32": {"unit": "FLOP/s", "readings": [1e10], "source": "measured"}}}
    shares = {}
    for device, world in (("cuda", 1), ("cuda", 2), ("cpu", 2)):
        run = made(tmp_path / f"{device}{world}", world=world, device=device, clock="device")
        run.update(hardware={**run.read()["hardware"], **peak})
        facts = read_facts(run.path)
        shares[device, world] = facts.mfu
        said = next(figure for figure in figures(facts) if figure.name == "MFU")
        assert ("share the processor" in said.rests_on) == (device == "cpu")
    assert shares["cuda", 1] == pytest.approx(8_000 * 1e5 / 1e10)
    assert shares["cuda", 2] == pytest.approx(shares["cuda", 1])
    assert shares["cpu", 2] is None


def test_after_ranks_went_the_throughput_is_that_of_those_that_are_left(tmp_path):
    run = made(tmp_path / "run", world=4, end=False)
    run.update(ranks={"world": 2, "backend": "gloo", "hosts": ["a", "b"]})
    for rank in (0, 1):
        add(run, rank, log(rank, 2, numbers=range(31, 51), own=slowed(0)))
    facts = read_facts(run.path)
    assert facts.throughput.median == pytest.approx(16_000)
    assert facts.throughput.n == 17


def test_the_waits_for_others_have_a_row_of_the_wall_time(tmp_path):
    for end in (True, False):
        run = made(tmp_path / f"{end}", travels=0.02, end=end)
        facts = read_facts(run.path)
        assert facts.wall["exchange"] == pytest.approx(40 * 0.02)
        assert facts.wall["step"] == pytest.approx(40 * 0.09)
        assert list(facts.wall)[2:4] == ["step", "exchange"]
        assert "waiting for the other processes" in wall(facts)
        assert "This is the time of rank 0" in wall(facts)
    alone = read_facts(made(tmp_path / "alone", world=1).path)
    assert "exchange" not in alone.wall
    assert "rank 0" not in wall(alone)


def test_an_exchange_that_the_ledger_tells_apart_stays_as_it_is(tmp_path):
    run = made(tmp_path / "run", travels=0.02)
    path = run.events_file()
    path.write_text(path.read_text().replace('"other":0.01', '"exchange":0.3'))
    found = read_facts(run.path).wall
    assert (found["exchange"], found["step"]) == (0.3, pytest.approx(40 * 0.11))


@pytest.mark.parametrize("told", hostile_ranks(), ids=lambda told: str(told)[:40])
def test_a_record_of_wrong_types_is_one_process(tmp_path, told):
    assert read_facts(made(tmp_path / "run", record={"ranks": told}).path).ranks is None


def test_a_hostile_folder_cannot_speak_html(tmp_path):
    run = made(tmp_path / "run", world=3, leave_out=[2])
    hosts = [EVIL] * 3
    record = json.loads((run.path / "run.json").read_text())
    record["ranks"] = {"world": 3, "backend": EVIL, "hosts": hosts}
    (run.path / "run.json").write_text(json.dumps(record))
    with run.events_file(1).open("a") as stream:
        stream.write(json.dumps({"v": EVIL, "kind": EVIL, "step": 1}) + "\n")
    written = page(read_facts(run.path))
    sound = Sound(written)
    assert sound.names.count("script") == sound.names.count("style") == 1
    assert "img" not in sound.names
    assert written.count("&lt;script&gt;alert(1)") >= 3
    assert "has event schema" in written
    assert "the line is skipped" in written


def test_a_page_of_many_ranks_stays_small(tmp_path):
    run = made(tmp_path / "run", world=2)
    run.update(ranks={"world": 300, "backend": "gloo", "hosts": []})
    for rank in range(2, 300):
        run.events_file(rank).write_bytes(run.events_file(0).read_bytes())
    written = ranks(read_facts(run.path))
    assert len(cells(written)) == 1 + 256 + 1
    assert "and 44 more ranks" in written
