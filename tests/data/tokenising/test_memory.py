"""Tokenising takes the same memory whatever the size of the data."""

import json
import random
import subprocess
import sys
import time

import psutil
import pytest
from tests.golden.tiny_tokenizer import TEXT, save

from hotloop.data.tokenising.token_store import open_store

LIMIT = 400e6  # bytes: of all its processes together


def written(path, size):
    """Write about `size` bytes of rows; return how many there are."""
    draw, words = random.Random(0), " ".join(TEXT).split()
    texts = [" ".join(draw.choices(words, k=draw.randint(1, 2000))) for _ in range(500)]
    block = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    blocks = size // len(block) + 1
    with path.open("wb") as stream:
        for _ in range(blocks):
            stream.write(block)
    return blocks * len(texts)


def peak(command):
    """Run a command; return the most memory that it and its children held at a time, bytes."""
    process = subprocess.Popen(command)
    most = 0
    while process.poll() is None:
        held = 0
        try:
            me = psutil.Process(process.pid)
            for each in (me, *me.children(recursive=True)):
                held += each.memory_info().rss
        except psutil.Error:
            pass
        most = max(most, held)
        time.sleep(0.02)
    assert process.returncode == 0
    return most


@pytest.mark.parametrize(
    "size", [64_000_000, pytest.param(2_000_000_000, marks=pytest.mark.slow)], ids=["64MB", "2GB"]
)
@pytest.mark.timeout(1800)
def test_memory_does_not_grow_with_the_data(tmp_path, size):
    save(tmp_path / "model")
    source = tmp_path / "train.jsonl"
    documents = written(source, size)
    command = [sys.executable, "-m", "hotloop", "data", "tokenize", str(source)]
    command += ["--tokenizer", str(tmp_path / "model"), "--out", str(tmp_path / "out")]
    most = peak([*command, "--pack", "2048", "-q"])
    print(f"{size / 1e6:.0f} MB: {most / 1e6:.0f} MB of memory at most")
    assert open_store(tmp_path / "out").about["splits"]["train"]["documents"] == documents
    assert 50e6 < most < LIMIT
