from dataclasses import replace

from tests.golden.cases import healthy
from tests.golden.slow_run import BATCHES, CASE

from hotloop.report.batches import batches


def test_padding_stands_beside_the_width():
    made = batches(CASE)
    assert "Real tokens of a row: median 129 in batches 512 wide" in made
    assert "74% of all positions are padding" in made
    assert "width 512" in made
    assert "32 x 512" in made


def test_a_sample_is_text_and_never_markup():
    made = batches(CASE)
    assert "&lt;b&gt;almost&lt;/b&gt; works &amp; then" in made
    assert "<b>" not in made
    odd = replace(BATCHES[0], decoded="a\u202eb\x1b\nnext")
    assert "a?b?\nnext" in batches(replace(CASE, batches=(odd,)))


def test_what_was_not_looked_at_is_left_out():
    bare = replace(CASE, batches=(replace(BATCHES[0], padding=None, lengths=(), decoded=None),))
    made = batches(bare)
    assert "<dt>padding</dt>" not in made
    assert "<svg" not in made
    assert "No batch was looked at." in batches(healthy())


def test_labels_are_shares_and_many_are_counted():
    assert "2 values: 1 51%, 0 49%" in batches(CASE)
    many = replace(BATCHES[0], labels={str(n): 1 for n in range(50)})
    assert "50 values: 0 2%" in batches(replace(CASE, batches=(many,)))
    assert "and 38 more" in batches(replace(CASE, batches=(many,)))
