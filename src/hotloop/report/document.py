"""The frame of a page: one file that includes its style and script and loads no other."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from hotloop.report.markup import Html, tag

__all__ = ["document"]


def document(title: str, *body: Html) -> str:
    """Return a whole HTML page.

    Its content security policy allows only its own style and script, by their hashes: the browser
    sends no request, and text from a run could not be executed even if the escaping failed.
    """
    style, script = _own("page.css"), _own("page.js")
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(style)),
    )
    page = tag("html", head, tag("body", *body, tag("script", Html(script))), lang="en")
    return f"<!doctype html>\n{page}\n"


def _own(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(block: str) -> str:
    digest = base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
    return f"'sha256-{digest}'"
