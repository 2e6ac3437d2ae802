import pytest
from tests.report.conftest import end, session, step, usual

from hotloop.report import curves
from hotloop.report.facts import read_facts

CHARTS = [
    curves.losses, curves.losses_by_time, curves.throughput, curves.memory,
    curves.utilisation, curves.gradient_norm, curves.learning_rate,
]  # fmt: skip


@pytest.fixture
def two(made):
    a, b = read_facts(made("a", usual(40))), read_facts(made("b", usual(20)))
    return [
        curves.Shown(run=a, look="a", label="A"),
        curves.Shown(run=b, look="b second", label="B"),
    ]


def test_one_run_has_its_losses_in_two_looks(two):
    [alone] = [curves.Shown(run=two[0].run, look="a")]
    chart = curves.losses([alone])
    assert [(line.label, line.look, line.marks) for line in chart.lines] == [
        ("training", "a train", False), ("validation", "b valid", True)
    ]  # fmt: skip
    assert chart.title == "Lowest validation loss: 3.1000 nats at step 40"
    assert chart.up == "loss, nats"
    assert "training loss 3.975 at step 1 and 3 at step 40" in chart.summary


def test_two_runs_keep_one_look_each_and_share_the_axes(two):
    chart = curves.losses(two)
    assert [line.label for line in chart.lines] == [
        "A training", "A validation", "B training", "B validation"
    ]  # fmt: skip
    assert {line.look.split()[0] for line in chart.lines if line.label[0] == "A"} == {"a"}
    assert {line.look.split()[0] for line in chart.lines if line.label[0] == "B"} == {"b"}
    assert chart.x.high == 40
    assert "A 3.1000 nats at step 40; B 3.1000 nats at step 20" in chart.title


@pytest.mark.parametrize("chart", CHARTS)
def test_every_chart_holds_its_values_between_its_ends(two, chart):
    made = chart(two)
    assert made.lines
    for line in made.lines:
        for bucket in line.buckets:
            assert 0 <= made.x.at(bucket.x) <= 1
            assert 0 <= made.y.at(bucket.low) <= made.y.at(bucket.high) <= 1


@pytest.mark.parametrize("chart", CHARTS)
def test_a_run_without_a_step_has_charts_without_lines_that_say_unknown(made, chart):
    alone = curves.Shown(run=read_facts(made("zero", [])), look="a")
    drawn = chart([alone])
    assert drawn.lines == []
    assert "unknown" in drawn.title


def test_a_band_is_explained_only_where_there_is_one(made):
    lines = [session(), *(step(n, t=1 + n / 10, loss=2 + n % 2) for n in range(1, 2001))]
    alone = curves.Shown(run=read_facts(made("long", [*lines, end(2000, t=300)])), look="a")
    assert curves.losses([alone]).note == curves.BAND
    few = curves.Shown(run=read_facts(made("short", usual(40))), look="a")
    assert curves.losses([few]).note is None


def test_memory_is_drawn_in_a_unit_that_can_be_read(two):
    chart = curves.memory(two)
    assert chart.up == "MiB"
    assert chart.lines[0].buckets[0].middle == pytest.approx(1024, rel=1e-3)
    assert chart.y.low == 0


def test_losses_of_unlike_or_unknown_units_say_so(two, made):
    other = curves.Shown(run=read_facts(made("c", usual(5), loss_unit="bits")), look="b", label="B")
    assert curves.losses([two[0], other]).up == "loss, unit unknown"


WORDS = {
    curves.losses: "3.1000 nats at step 40",
    curves.losses_by_time: "5.50 s for 3.1000",
    curves.gradient_norm: "median 1, highest 1 at step 1",
    curves.learning_rate: "highest 0.001, last 0.001",
    curves.throughput: "median 1.2k tokens/s",
    curves.memory: "1 GiB to 1 GiB",
    curves.utilisation: "median 50%",
}


@pytest.mark.parametrize(("chart", "said"), WORDS.items())
def test_what_is_seen_is_said(made, chart, said):
    alone = curves.Shown(run=read_facts(made("run", usual(40))), look="a")
    assert chart([alone]).title.partition(": ")[2] == said


@pytest.mark.parametrize("chart", WORDS)
def test_nothing_to_see_is_unknown(made, chart):
    alone = curves.Shown(run=read_facts(made("zero", [])), look="a")
    assert chart([alone]).title.partition(": ")[2].startswith("unknown")


def test_the_course_of_a_run_is_a_sentence(made):
    zero = curves.Shown(run=read_facts(made("zero", [])), look="a")
    assert curves.losses([zero]).summary == "no step was made."
    run = curves.Shown(run=read_facts(made("run", usual(40))), look="a")
    assert curves.losses([run]).summary.endswith("lowest validation loss 3.1000 nats at step 40.")


def points(line) -> list[tuple[float, float]]:
    return [(bucket.x, bucket.middle) for bucket in line.buckets]


def test_points_by_step_and_by_time(made):
    run = [curves.Shown(run=read_facts(made("run", usual(40))), look="a")]
    training, validation = curves.losses(run).lines
    assert points(training)[0] == (1.0, pytest.approx(3.975))
    assert points(validation) == [(40.0, pytest.approx(3.1))]
    [by_time] = curves.losses_by_time(run).lines
    assert points(by_time) == [(pytest.approx(5.5, abs=0.01), pytest.approx(3.1))]
    assert points(curves.learning_rate(run).lines[0])[-1] == (40.0, 1e-3)
    assert points(curves.throughput(run).lines[0])[0][0] == 2.0
    busy, memory = curves.utilisation(run), curves.memory(run)
    assert [share for _, share in points(busy.lines[0])] == [50] * 4
    assert memory.up == "MiB"
    assert points(memory.lines[0])[0][1] == (2**30 + 10) / 2**20


def test_a_step_without_a_norm_is_left_out(made):
    lines = [session(), step(1, t=1.1, norm=None), step(2, t=1.2, norm=7.0)]
    run = curves.Shown(run=read_facts(made("run", lines)), look="a")
    assert points(curves.gradient_norm([run]).lines[0]) == [(2.0, 7.0)]
