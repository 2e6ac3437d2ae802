import os
from pathlib import Path

import pytest

from hotloop.observe.probes.file_offsets import offsets, put_back, shifted

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no /proc here")


def test_a_file_that_was_read_on_is_put_back(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(bytes(100))
    with path.open("rb", buffering=0) as file:
        file.read(10)
        before = offsets()
        assert shifted(before) == []
        file.read(20)
        assert [name[0] for name in shifted(before)] == [file.fileno()]
        put_back(before)
        assert file.tell() == 10


def test_what_is_written_to_or_closed_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb", buffering=0) as log, (tmp_path / "log").open("rb") as closed:
        before = offsets()
        closed.close()
        log.write(b"line")
        put_back(before)
        assert shifted(before) == []
        assert os.lseek(log.fileno(), 0, os.SEEK_CUR) == 4
