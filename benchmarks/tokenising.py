"""T1: what it costs to tokenise and pack source code, by a 32k BPE, from JSON lines on disk.

python -m benchmarks.tokenising [--rounds N] [--only TEXT] [--busy] [--quick]

The corpus is the Python source of this machine's standard library and packages, each file once. A
reading is a fresh process, its imports included; slow rows get the first megabytes of the corpus.
Memory is that of a process with all its children. All rows but datasets' give one and the same
stream of tokens, which is checked; datasets' group_texts drops the end of each batch.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import xxhash

from benchmarks.measure import Bench, Goal, interleave, options
from hotloop.core.digest import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROW = 2048  # tokens
VOCABULARY = 32_000
WALL, PEAK = "wall s/GB", "peak MB"
FLOOR, HOT, PLAIN = "read JSON", "hotloop", "hotloop, --backend tokenizers"
DIRECT, MAPPED = "tokenizers alone", "datasets.map + group_texts, 2 processes"
SLOW = 16  # megabytes for rows that take a minute for more
GOALS = [
    Goal(text="at most 250 MB of memory", row=HOT, quantity=PEAK, limit=250),
    Goal(text="100 MB/s: at most 10 s/GB", row=HOT, quantity=WALL, limit=10),
    Goal(
        text="at most a 15th of datasets.map",
        row=HOT,
        quantity=WALL,
        against=MAPPED,
        limit=1 / 15,
    ),
    Goal(
        text="with tokenizers, at its own speed",
        row=PLAIN,
        quantity=WALL,
        against=DIRECT,
        limit=1.05,
    ),
]


def sources() -> Iterator[str]:
    """Yield the text of each Python file once."""
    paths = sysconfig.get_paths()
    roots = dict.fromkeys((paths["stdlib"], paths["purelib"], paths["platlib"]))
    seen = set()
    for path in chain.from_iterable(sorted(Path(root).rglob("*.py")) for root in roots):
        text = path.read_text(errors="replace")
        if text.strip() and (mark := digest(text)) not in seen:
            seen.add(mark)
            yield text


def corpus(folder: Path, megabytes: int) -> tuple[Path, Path, int]:
    """Write the corpus, its first part and a tokenizer; return both files and the bytes of all."""
    whole, part = folder / "train.jsonl", folder / "part" / "train.jsonl"
    part.parent.mkdir()
    written, texts = 0, []
    with whole.open("w") as all_of_it, part.open("w") as some:
        for text in sources():
            line = json.dumps({"text": text}) + "\n"
            all_of_it.write(line)
            if written < SLOW * 1e6:
                some.write(line)
                texts.append(text)
            written += len(line)
            if written > megabytes * 1e6:
                break
    train(texts, folder / "model")
    return whole, part, written


def train(texts: list[str], folder: Path) -> None:
    """Train the tokenizer and save it as a model folder has it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|end|>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))


def reading(name: str, file: Path, folder: Path, sums: dict[Path, set[str]]) -> dict[str, float]:
    """Run one row in a fresh process; return seconds per gigabyte and its most memory."""
    out = folder / "out"
    began = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.tokenising", "--row", name, str(file), str(folder)]
    most = 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            try:
                me = psutil.Process(process.pid)
                each = [one.memory_info().rss for one in (me, *me.children(recursive=True))]
                most = max(most, sum(each) / 1e6)
            except psutil.Error:
                pass
            time.sleep(0.01)
        seconds = time.perf_counter() - began
        assert process.stdout is not None
        said = process.stdout.read().split()
    if process.returncode:
        raise RuntimeError(f"{name} ended with {process.returncode}")
    if name in (HOT, PLAIN, DIRECT):
        sums.setdefault(file, set()).add(said[-1] if name == DIRECT else stream_of(out))
        assert len(sums[file]) == 1, f"{name} gave other tokens of {file}"
    shutil.rmtree(out, ignore_errors=True)
    return {WALL: seconds / file.stat().st_size * 1e9, PEAK: most}


def stream_of(out: Path) -> str:
    """Return the checksum of the tokens in a folder, in this process: it maps all of them."""
    from hotloop.data.tokenising.token_store import open_store

    state, rows = xxhash.xxh3_128(), open_store(out).splits["train"]
    for at in rows.batches():
        state.update(rows.listed(at, "input_ids")[0].astype("<u4"))
    return state.hexdigest()


def texts_of(file: Path) -> Iterator[str]:
    """Yield the texts of JSON lines."""
    with file.open() as lines:
        for line in lines:
            yield json.loads(line)["text"]


def read_json(file: Path, folder: Path) -> str:
    """Parse the lines and do nothing."""
    return str(sum(map(len, texts_of(file))))


def hotloop(file: Path, folder: Path, *, backend: str) -> str:
    """Tokenise and pack as the command does."""
    from hotloop.cli.main import main as command

    out = folder / "out"
    asked = ["data", "tokenize", str(file), "--tokenizer", str(folder / "model"), "--out", str(out)]
    code = command([*asked, "--pack", str(ROW), "--strategy", "concat", "--backend", backend, "-q"])
    assert code == 0
    return "made"


def direct(file: Path, folder: Path) -> str:
    """Call tokenizers on batches of texts: nothing is packed, kept or written."""
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(folder / "model" / "tokenizer.json"))
    end, state, batch = made.token_to_id("<|end|>"), xxhash.xxh3_128(), list[str]()

    def take() -> None:
        for each in made.encode_batch_fast(batch):
            state.update(np.array([*each.ids, end], "<u4"))
        batch.clear()

    for text in texts_of(file):
        batch.append(text)
        if len(batch) == 1000:
            take()
    take()
    return state.hexdigest()


def mapped(file: Path, folder: Path) -> str:
    """Do it as transformers' run_clm.py does: map, then group_texts, in 2 processes."""
    import datasets
    from transformers import PreTrainedTokenizerFast

    datasets.disable_progress_bars()
    made = PreTrainedTokenizerFast(tokenizer_file=str(folder / "model" / "tokenizer.json"))
    end = made.convert_tokens_to_ids("<|end|>")

    def encode(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {"input_ids": [[*ids, end] for ids in made(rows["text"])["input_ids"]]}

    def group(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        flat = list(chain.from_iterable(rows["input_ids"]))
        whole = len(flat) // ROW * ROW
        return {"input_ids": [flat[at : at + ROW] for at in range(0, whole, ROW)]}

    cache = str(folder / "out")
    data = datasets.load_dataset("json", data_files=str(file), cache_dir=cache)["train"]
    encoded = data.map(encode, batched=True, remove_columns=["text"], num_proc=2)
    return str(len(encoded.map(group, batched=True, num_proc=2)))


RUN = {
    FLOOR: read_json,
    HOT: partial(hotloop, backend="auto"),
    PLAIN: partial(hotloop, backend="tokenizers"),
    DIRECT: direct,
    MAPPED: mapped,
}


def main(argv: Sequence[str] | None = None) -> None:
    """Take readings by turns."""
    if "--row" in (argv or sys.argv):
        name, file, folder = sys.argv[sys.argv.index("--row") + 1 :]
        print(RUN[name](Path(file), Path(folder)))
        return
    chosen = options(argv, __doc__ or "", rounds=3)
    bench = Bench(
        name="tokenising",
        title=f"T1 tokenise and pack Python source into rows of {ROW} tokens",
        options=chosen,
        base=HOT,
        quantities=(WALL, PEAK),
        peers=(MAPPED,),
        goals=GOALS,
    )
    bench.begin()
    with tempfile.TemporaryDirectory() as scratch:
        whole, part, size = corpus(Path(scratch), 2 if chosen.quick else 208)
        print(f"{size / 1e6:.0f} MB of Python source, each file once", file=sys.stderr)
        sums: dict[Path, set[str]] = {}
        rows = bench.gather(
            {
                name: partial(lambda read: read, partial(reading, name, file, Path(scratch), sums))
                for name, file in (
                    (FLOOR, whole),
                    (HOT, whole),
                    (PLAIN, part),
                    (DIRECT, part),
                    (MAPPED, part),
                )
            }
        )
        bench.conclude(interleave(rows, rounds=chosen.rounds, warm=0))


if __name__ == "__main__":
    main()
