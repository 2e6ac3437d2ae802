import re
from dataclasses import replace

import pytest
from tests.data.statistics.test_token_statistics import DRAWN, digested, stats
from tests.report.conftest import EVIL, Sound

from hotloop.data.statistics.decoded_documents import Span
from hotloop.report.datastats import page, percent


def test_a_page_has_every_split_with_its_histogram_and_the_advice():
    found = stats(digested(DRAWN, learned=7), digested(DRAWN[:40], split="test"))
    text = page(found)
    sound = Sound(text)
    assert sound.names.count("h1") == 1
    assert sound.names.count("svg") == 2
    bins = [each for split in found.splits for each in split.histogram]
    assert text.count('class="column"') == len(bins)
    for split in found.splits:
        assert f"<strong>{split.name}: {split.recommended}</strong>" in text
        for way in split.strategies:
            assert re.search(rf"{way.name}[^/]*/.*{way.padding:.1%}", text), way
    assert text.count("(recommended)") == 2
    assert "7 tokens (0%)" in text
    assert len(sound.ids) == len(set(sound.ids))


def test_columns_stand_on_the_axis_and_fill_it():
    text = page(stats(digested(DRAWN)))
    columns = re.findall(r'class="column" x="([\d.]+)%" width="([\d.]+)%" y="([\d.]+)%"', text)
    assert float(columns[0][0]) == 0
    ends = [float(x) + float(width) for x, width, _ in columns]
    assert 98 < ends[-1] <= 100
    assert all(end <= float(x) for end, (x, _, _) in zip(ends, columns[1:], strict=False))
    assert all(0 <= float(y) <= 100 for _, _, y in columns)


@pytest.mark.parametrize("lengths", [[1], [7], [1, 2], [5] * 30, [1, 10**6], [340_159]])
def test_any_lengths_can_be_drawn(lengths):
    text = page(stats(digested(lengths)))
    Sound(text)
    assert 'class="column"' in text
    assert "nan" not in text


def test_what_carries_loss_is_marked_where_something_does_not():
    found = stats(digested([5]))
    spans = (
        Span(text="asked", is_learned=False),
        Span(text="said", is_learned=True, left_out=900, end="done"),
    )
    split = replace(found.splits[0], samples=(spans,))
    text = page(replace(found, splits=(split,)))
    assert re.search(
        r"<pre>asked<mark>said<span [^>]*> \[… 900 tokens …\] </span>done</mark>", text
    )
    assert "<mark>" not in page(found), "all of it carries loss"


def test_labels_and_copies_are_tables():
    leak = digested([3], split="test")
    text = page(stats(digested([3, 3], labels={"yes": 3, "no": 1}), leak))
    assert "3.0 times as often as the rarest" in text
    assert "test: a copy of one of train" in text
    assert "100.0%" in text
    many = page(stats(digested([3], labels={f"l{n}": 1 for n in range(60)})))
    assert "10 more labels" in many


def test_text_of_the_data_cannot_speak_html():
    found = stats(digested([5], labels={EVIL: 1}, split=EVIL), name=EVIL, notes=[EVIL])
    split = replace(found.splits[0], samples=((Span(text=EVIL, is_learned=True),),))
    text = page(replace(found, splits=(split,)))
    sound = Sound(text)
    assert "img" not in sound.names
    assert sound.names.count("script") == 1


@pytest.mark.parametrize(
    ("share", "said"), [(0.0, "0.0%"), (1e-6, "<0.1%"), (0.0005, "0.1%"), (0.5, "50.0%")]
)
def test_a_small_share_is_not_nothing(share, said):
    assert percent(share) == said
