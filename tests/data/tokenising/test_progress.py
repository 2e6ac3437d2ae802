from pathlib import Path

import numpy as np
import pytest

from hotloop.data.readers.portions import Portion, RecordFile
from hotloop.data.tokenising.encode import Encoded
from hotloop.data.tokenising.progress import PortionCounter
from hotloop.data.tokenising.tokenize_portion import Turned


def source(name, size):
    return RecordFile(path=Path(f"/{name}"), name=name, split="train", format="txt", bytes=size)


def turned(tokens, size):
    encoded = Encoded(ids=np.zeros(tokens, np.uint32), lengths=np.array([tokens]))
    return Turned(encoded=encoded, words={}, faults={}, bytes=size)


def test_shares_grow_over_files_and_end_at_one():
    told = []
    pace = PortionCounter([source("a", 30), source("b", 70)], told.append)
    for name, offset, size in (("a", 0, 30), ("b", 0, 35), ("b", 35, 500)):
        portion = Portion(file=f"/{name}", name=name, format="txt", offset=offset)
        pace.count(portion, turned(7, size))
    assert [at.share for at in told] == pytest.approx([0.3, 0.65, 1.0])
    assert [at.tokens for at in told] == [7, 14, 21]
    assert [at.bytes for at in told] == [30, 65, 565]
    assert told[-1].what == "b"
    assert 0 < told[0].seconds <= told[-1].seconds


def test_before_anything_is_counted_it_says_what_is_done():
    told = []
    PortionCounter([source("a", 30)], told.append).say("starting")
    assert [(at.what, at.seconds, at.share) for at in told] == [("starting", 0.0, None)]
