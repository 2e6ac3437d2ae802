"""Messages through a pipe: whole or not at all."""

import io

import pytest

from hotloop.data.tokenising.pipe_protocol import opened, packed, receive, send


def test_heads_and_buffers_come_over_in_order():
    pipe = io.BytesIO()
    send(pipe, {"a": 1}, b"one", memoryview(b""), b"three")
    send(pipe, {})
    pipe.seek(0)
    assert receive(pipe) == ({"a": 1}, [b"one", b"", b"three"])
    assert receive(pipe) == ({}, [])
    assert receive(pipe) is None


@pytest.mark.parametrize("cut", [0, 3, 8, 20, -1])
def test_half_a_message_is_none(cut):
    pipe = io.BytesIO()
    send(pipe, {"a": 1}, b"one")
    assert receive(io.BytesIO(pipe.getvalue()[:cut])) is None


def test_a_packed_message_is_what_goes_through_a_pipe():
    pipe = io.BytesIO()
    send(pipe, {"a": [1, None]}, b"one", b"")
    assert bytes(packed({"a": [1, None]}, b"one", memoryview(b""))) == pipe.getvalue()
    assert opened(packed({"a": [1, None]}, b"one", b"")) == ({"a": [1, None]}, [b"one", b""])
