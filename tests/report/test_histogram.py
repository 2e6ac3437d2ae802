import re
import xml.etree.ElementTree as ET

from hotloop.report.histogram import histogram


def columns(values, mark=None) -> list[tuple[str, str]]:
    made = histogram(values, id="h", title="T", summary="S", across="tokens", up="rows", mark=mark)
    ET.fromstring(made)
    return re.findall(r'<rect class="column"[^>]*height="([^"]*)"><title>([^<]*)</title>', made)


def test_every_value_is_counted_once():
    said = [label for _, label in columns([0, 1, 1, 3])]
    assert said == ["0: 1", "1: 2", "3: 1"]


def test_wide_ranges_share_columns():
    found = [label for _, label in columns(list(range(1000)))]
    assert len(found) <= 40
    assert found[0] == "0 to 24: 25"
    assert sum(int(label.rpartition(" ")[2]) for label in found) == 1000


def test_a_column_is_as_high_as_its_count():
    heights = [float(height.rstrip("%")) for height, _ in columns([1, 1, 2])]
    assert heights[0] == 2 * heights[1]


def test_the_value_to_compare_with_is_inside_and_named():
    words = {"title": "<T>", "summary": "S", "across": "tokens", "up": "rows"}
    made = histogram([3], id="h", mark=(512, "width 512"), **words)
    assert "width 512" in made
    assert "&lt;T&gt;" in made
    at = re.search(r'class="event b" x1="([\d.]+)%"', made)
    assert at is not None
    assert 95 < float(at[1]) <= 100
