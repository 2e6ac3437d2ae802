"""Build HTML and SVG from values: every value that is not markup already is escaped."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "UNKNOWN",
    "Html",
    "code",
    "join",
    "missing",
    "notes",
    "panel",
    "picture",
    "table",
    "tag",
    "text",
]

UNKNOWN = "unknown"
LONGEST = 2000  # most characters of one text from a run, so that a page stays small
_VOID = frozenset({"meta", "br", "link"})
# Control characters are not allowed in HTML; a lone surrogate cannot be encoded as UTF-8.
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class Html(str):
    """Text that is already markup."""

    __slots__ = ()


def text(value: object) -> Html:
    """Return a value as escaped text: None as "unknown", cut off after `LONGEST` characters."""
    if isinstance(value, Html):
        return value
    shown = UNKNOWN if value is None else str(value)
    if len(shown) > LONGEST:
        shown = f"{shown[:LONGEST]} … ({len(shown):,} characters in all)"
    return Html(html.escape(_ODD.sub("\N{REPLACEMENT CHARACTER}", shown)))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element. `class_` becomes class, `data_label` data-label; None is left out."""
    inside = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{inside}>")
    return Html(f"<{name}{inside}>{join(children)}</{name}>")


def join(children: Iterable[object]) -> Html:
    """Concatenate values as markup."""
    return Html("".join(map(text, children)))


def code(value: object) -> Html:
    """Return a value in a code element; None becomes plain "unknown"."""
    return text(value) if value is None else tag("code", value)


def missing(sentence: str) -> Html:
    """Return the sentence that is shown in place of missing content."""
    return tag("p", sentence, class_="missing")


def panel(*children: object) -> Html:
    """Return elements in a panel."""
    return tag("div", *children, class_="panel")


def notes(items: Iterable[object], *, none: str) -> Html:
    """Return a list of notes, or the sentence `none` if there are no items."""
    lines = [tag("li", item) for item in items]
    return tag("ul", *lines, class_="notes panel") if lines else missing(none)


def picture(id: str, title: str, summary: str, *children: object, **attributes: object) -> Html:
    """Return an SVG image with its title and its description for screen readers."""
    words = (tag("title", title, id=f"{id}-title"), tag("desc", summary, id=f"{id}-desc"))
    labels = {"role": "img", "aria_labelledby": f"{id}-title {id}-desc"}
    return tag("svg", *words, *children, **attributes, **labels)


def table(
    titles: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str, kind: str = ""
) -> Html:
    """Return a table whose first column names the rows. `kind` is a class of page.css.

    Each cell carries its title, so that a narrow page can show a row as a list. The CSS display
    rules remove the table semantics; the ARIA roles restore them.
    """
    head = tag("tr", *(tag("th", t, scope="col", role="columnheader") for t in titles), role="row")
    body = (
        tag("tr", *(_cell(n, title, value) for n, (title, value) in enumerate(row)), role="row")
        for row in (zip(titles, cells, strict=True) for cells in rows)
    )
    return tag(
        "table",
        tag("caption", caption),
        tag("thead", head, role="rowgroup"),
        tag("tbody", *body, role="rowgroup"),
        class_=kind or None,
        role="table",
    )


def _cell(column: int, title: str, value: object) -> Html:
    if column == 0:
        return tag("th", value, scope="row", role="rowheader")
    return tag("td", value, role="cell", data_label=title)
