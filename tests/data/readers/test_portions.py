from hotloop.data.readers.portions import Portion, RecordFile, of_blocks
from hotloop.data.readers.text_lines import LineBlock
from hotloop.data.tokenising.pipe_protocol import opened, packed
from hotloop.data.tokenising.worker_process import portion_of, question

BLOCKS = [
    LineBlock(data=b"a\nb\n", line=1, lines=2, offset=3),
    LineBlock(data=b"", line=3, lines=1, offset=7, fault=("too long", "why", 1)),
]


def test_a_portion_crosses_to_another_process_as_a_message():
    portion = Portion(
        file="/d/a.csv", name="a.csv", format="csv", data=b"\xff", fields=("x", "y"), is_last=True
    )
    asked, data = question(portion)
    head, buffers = opened(packed(asked, *data))
    assert (head["portion"]["file"], head["portion"]["name"]) == ("/d/a.csv", "a.csv")
    assert portion_of(head, buffers) == portion


def test_blocks_become_portions_with_their_places(tmp_path):
    source = RecordFile(path=tmp_path / "a.txt", name="a", split="test", format="txt", bytes=99)
    first, second = of_blocks(source, iter(BLOCKS), fields=("x",))
    assert (first.data, first.line, first.offset, first.fault) == (b"a\nb\n", 1, 3, None)
    assert (second.data, second.line, second.offset) == (b"", 3, 7)
    assert second.fault == ("too long", "why", 1)
    assert {(p.file, p.name, p.format, p.fields) for p in (first, second)} == {
        (str(source.path), "a", "txt", ("x",))
    }
