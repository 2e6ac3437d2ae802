import base64
import hashlib
import re

from hotloop.report.document import document
from hotloop.report.markup import tag


def test_a_page_brings_everything_along_and_may_load_nothing():
    page = document("<title>", tag("p", "text"))
    assert page.startswith('<!doctype html>\n<html lang="en"><head>')
    assert "default-src &#x27;none&#x27;" in page
    assert not re.search(r"https?:|@import|url\(|<img|<link|\bfetch\b", page)
    assert "<title>&lt;title&gt;</title>" in page


def test_the_policy_allows_just_the_two_blocks_that_are_there():
    page = document("t")
    for name in ("style", "script"):
        block = re.search(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)
        assert block is not None
        hashed = base64.b64encode(hashlib.sha256(block[1].encode()).digest()).decode()
        assert f"{name}-src &#x27;sha256-{hashed}&#x27;" in page


def test_no_element_has_a_style_or_a_handler_of_its_own():
    assert not re.search(r"<[^>]+\s(style|on\w+)=", document("t", tag("p", "x")))
