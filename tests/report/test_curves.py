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
