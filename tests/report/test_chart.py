import re
import xml.etree.ElementTree as ET
from dataclasses import replace

from hotloop.report.axis import linear
from hotloop.report.chart import Chart, Curve, Event, bar, draw, legend
from hotloop.report.thin import Bucket


def bucket(x: float, y: float, *, low: float | None = None, high: float | None = None) -> Bucket:
    return Bucket(x=x, low=y if low is None else low, middle=y, high=y if high is None else high)


LINE = Curve(label="training", look="a train", buckets=[bucket(0, 0), bucket(5, 10), bucket(10, 5)])
CHART = Chart(
    id="losses",
    title="Loss falls & <stays>",
    summary="From 10 to 5.",
    across="optimizer step",
    up="nats",
    x=linear([0, 10], ticks=5, tight=True),
    y=linear([0, 10], ticks=5, tight=True),
    lines=[LINE],
)


def test_a_curve_stands_where_its_values_are():
    made = draw(CHART)
    assert 'd="M0 1000 500 0 1000 500"' in made
    assert "band" not in made, "no step was left out"


def test_a_band_shows_the_lowest_and_the_highest():
    line = replace(LINE, buckets=[bucket(0, 5, low=0, high=10), bucket(10, 5, low=4, high=6)])
    made = draw(replace(CHART, lines=[line], note="how to read it"))
    assert 'class="band a train" d="M0 0 1000 400 1000 600 0 1000Z"' in made
    assert "how to read it" in made


def test_a_chart_is_sound_xml_and_says_what_it_shows():
    figure = ET.fromstring(draw(CHART))
    svg = figure.find("svg")
    assert svg is not None
    named = [element.get("id") for element in svg.iter() if element.get("id")]
    assert svg.get("aria-labelledby", "").split() == named == ["losses-title", "losses-desc"]
    assert svg.get("role") == "img"
    assert svg.findtext("title") == CHART.title
    assert "optimizer step, 0 to 10. Up: nats, 0 to 10." in (svg.findtext("desc") or "")


def test_ticks_have_numbers_and_both_axes_a_title():
    made = draw(CHART)
    said = re.findall(r"<text[^>]*>([^<]*)</text>", made)
    assert said.count("0") == said.count("10") == 2
    assert "nats" in said
    assert "optimizer step" in said


def test_marks_and_single_points_can_be_seen():
    assert draw(CHART).count("<circle") == 0
    assert draw(replace(CHART, lines=[replace(LINE, label="", marks=True)])).count("<circle") == 3
    assert draw(replace(CHART, lines=[replace(LINE, buckets=[bucket(3, 3)])])).count("<circle") == 1


def test_a_long_curve_is_not_cut_off_like_a_text():
    line = replace(LINE, buckets=[bucket(n / 100, n % 10) for n in range(1000)])
    path = re.search(r'class="line a train"[^>]* d="M([^"]*)"', draw(replace(CHART, lines=[line])))
    assert path is not None
    assert len(path[1].split()) == 2000


def test_events_of_two_kinds_at_one_place_do_not_cover_each_other():
    events = [Event(label="save", look="save", at=[5.0]), Event(label="e", look="epoch", at=[5.0])]
    made = draw(replace(CHART, events=events))
    assert 'class="event save" x1="50.00%" x2="50.00%" y1="0.0%" y2="50.0%"' in made
    assert 'class="event epoch" x1="50.00%" x2="50.00%" y1="50.0%" y2="100.0%"' in made
    assert "save</li>" in made


def test_only_named_lines_have_a_legend():
    assert "legend" in draw(CHART)
    assert "legend" not in draw(replace(CHART, lines=[replace(LINE, label="")]))
    assert "&lt;b&gt;" in legend([("<b>", "a valid")])


def test_a_bar_is_as_wide_as_its_shares_and_says_them():
    made = bar({"step": 0.75, "save": 0.25, "other": 0.0}, {"step": "step"}, id="w", title="Wall")
    assert 'class="row step" x="0.000%" width="75.000%"' in made
    assert 'class="row rest" x="75.000%" width="25.000%"' in made
    assert made.count("<rect") == 2, "a row of nothing has no place in the bar"
    assert "step 75.0%, save 25.0%, other 0.0%" in made
