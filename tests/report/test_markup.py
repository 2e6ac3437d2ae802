import pytest

from hotloop.report.markup import LONGEST, Html, code, join, missing, table, tag, text

EVIL = "<script>alert('x')</script>&\"quote\""


def test_children_and_attributes_are_escaped_and_markup_is_not_escaped_twice():
    made = tag("p", EVIL, tag("b", "a < b"), title=EVIL)
    assert "<script>" not in made
    assert "<b>a &lt; b</b>" in made
    assert 'title="&lt;script&gt;' in made
    assert made.count('"') == 2, "a quote inside the value would end it"


def test_unknown_is_a_word():
    assert tag("td", None) == "<td>unknown</td>"
    assert code(None) == "unknown"
    assert code("x") == "<code>x</code>"


def test_what_could_not_be_written_or_shown_is_replaced():
    shown = text("a\x00b\ud800c\x1bd\te\nf")
    assert shown == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c" + (
        "\N{REPLACEMENT CHARACTER}d\te\nf"
    )
    shown.encode()


def test_a_very_long_text_is_cut_off_and_says_so():
    shown = text("x" * 1_000_000)
    assert len(shown) < LONGEST + 100
    assert "1,000,000 characters" in shown


def test_names_of_attributes_and_elements_without_content():
    assert tag("meta", http_equiv="X") == '<meta http-equiv="X">'
    assert tag("p", class_="note", id=None) == '<p class="note"></p>'
    assert join(["<", Html("<br>")]) == "&lt;<br>"
    assert missing("none") == '<p class="missing">none</p>'


def test_a_table_tells_its_meaning_also_where_css_shows_it_as_a_list():
    made = table(("what", "value"), [("a", "1"), (EVIL, None)], caption="c", kind="list")
    for piece in ('<caption>c</caption>', 'scope="col"', 'scope="row"', 'role="table"',
                  '<td role="cell" data-label="value">unknown</td>'):  # fmt: skip
        assert piece in made
    assert "<script>" not in made


def test_a_row_that_does_not_fit_the_titles_is_our_mistake():
    with pytest.raises(ValueError, match="zip"):
        table(("a", "b"), [("only",)], caption="c")
