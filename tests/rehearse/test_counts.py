"""What the library counts comes to Python whole."""

import json

from hotloop.nullcard import counts


def test_counts_that_grow_while_they_are_read_are_read_whole(monkeypatch):
    """A thread may add a call between asking for the size of the counts and reading them."""
    texts = ["{}", '{"a": 1}', '{"a": 1, "b": 2}']

    class Growing:
        asked = 0

        def nullcard_counts(self, buffer, size):
            text = texts[min(self.asked, 2)].encode()
            self.asked += 1
            buffer.value = text[: size - 1]
            return len(text) + 1

    library = Growing()
    monkeypatch.setattr(counts, "_own", lambda: library)
    assert json.loads(counts.as_json()) == {"a": 1, "b": 2}
