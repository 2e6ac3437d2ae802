"""D2: what it costs to make batches of chat rows that were tokenised before, per real token.

python -m benchmarks.collating [--rounds N] [--only TEXT] [--busy] [--quick]

Rows are lognormal with mean 180 and sigma 1, cut to 8..2048; the second half of each carries loss.
Every row of the table makes input_ids and labels as int64 in random order, on the main thread;
packed and padding-free ones make positions and where documents begin, too. The floor casts the
tokens of one packed batch, which lie in the cache, into three arrays. CPU time is of this process,
one thread. The peers are given Python lists, as a tokenised `datasets` row is one, so
reading them from the disk is not counted; hotloop reads its mapped file.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from benchmarks.measure import Bench, Goal, interleave, options
from benchmarks.turns import NotRun
from hotloop.core.storage.files import finish_folder, make_folder, write_json
from hotloop.core.storage.journal import Growing
from hotloop.data.sampling.epoch_order import permutation
from hotloop.data.sampling.token_rows import Form, TokenRows
from hotloop.data.tokenising.arrow_file import END, Columns, Rows, head, message
from hotloop.data.tokenising.packing import best_fit
from hotloop.data.tokenising.token_store import ABOUT, FILE, SCHEMA, Store, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

MEAN, SIGMA, LONGEST, PAD = 180, 1.0, 2048, 0
PACKED_ROWS, ROWS = 16, 64  # of a batch
BATCHES = 40  # to a reading
PER_TOKEN = "cpu ns/token"
FLOOR = "cast hot rows, three times"
PACKED, FREE, PADDED = "hotloop packed", "hotloop padding-free", "hotloop padded"
SEQ2SEQ, FLATTENING = "DataCollatorForSeq2Seq", "DataCollatorWithFlattening"
TRL = "TRL padding-free"
PEERS = (SEQ2SEQ, FLATTENING, TRL)
FEWER = {SEQ2SEQ: 3, FLATTENING: 5, TRL: 5}
GOALS = [
    Goal(text="packed rows at most 4 ns", row=PACKED, quantity=PER_TOKEN, limit=4),
    Goal(text="padding-free at most 20 ns", row=FREE, quantity=PER_TOKEN, limit=20),
    Goal(
        text="padding-free at most a 15th of TRL",
        row=FREE,
        quantity=PER_TOKEN,
        against=TRL,
        limit=1 / 15,
    ),
]

Taken = tuple[object, int]  # a batch, and its tokens that are not padding


def drawn(count: int) -> NDArray[np.int64]:
    """Return the lengths of rows, [count]."""
    draw = np.random.default_rng(0).lognormal(np.log(MEAN) - SIGMA**2 / 2, SIGMA, count)
    return np.clip(np.rint(draw), 8, LONGEST).astype(np.int64)


def chat(lengths: NDArray[np.int64]) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Return the ids and the loss mask of rows, one after the other, [tokens]."""
    ids = np.random.default_rng(1).integers(1, 32_000, int(lengths.sum())).astype(np.uint16)
    halves = np.stack([lengths - lengths // 2, lengths // 2], axis=1).ravel()
    return ids, np.repeat(np.arange(len(halves), dtype=np.uint8) % 2, halves)


def written(folder: Path, lengths: NDArray[np.int64], *, is_packed: bool) -> Store:
    """Write a folder of tokens of these rows, packed or as they are, and open it."""
    ids, mask = chat(lengths)
    counts = np.ones(len(lengths), np.int64)
    if is_packed:
        packed = best_fit(lengths, LONGEST)
        begins = np.cumsum(lengths) - lengths
        places = np.concatenate(
            [np.arange(begins[d], begins[d] + lengths[d]) for d in packed.order]
        )
        ids, mask, lengths = ids[places], mask[places], lengths[packed.order]
        counts = np.diff(packed.starts)
    columns = Columns(is_narrow=True, is_packed=is_packed, mask="assistant_masks")
    firsts = np.cumsum(counts) - counts
    rows = Rows(
        ids=ids,
        lengths=np.add.reduceat(lengths, firsts),
        documents=lengths.astype(np.int32),
        counts=counts,
        bytes_={"assistant_masks": mask},
    )
    room = folder.with_name(f"{folder.name}.unfinished")
    file = Growing(make_folder(room / "train") / FILE)
    for data in (head(columns), message(columns, rows), END):
        file.append(data)
    file.close()
    splits = {"train": {"rows": len(rows.lengths)}}
    write_json(room / ABOUT, {"schema": SCHEMA, "kind": "tokens", "identity": {}, "splits": splits})
    finish_folder(room, folder)
    return open_store(folder)


def floor() -> Iterator[Taken]:
    """Cast the same rows into the same memory as ids, labels and positions, over and over."""
    rows = np.ones((PACKED_ROWS, LONGEST), np.uint16)
    target = np.empty((3, *rows.shape), np.int64)
    while True:
        np.copyto(target, rows)
        yield target, rows.size


def hotloop(store: Store, batch: int, **form: Any) -> Iterator[Taken]:
    """Feed shuffled batches of a folder of tokens."""
    rows = TokenRows(store, "train", form=Form(pad=PAD, **form), seed=1, shuffle=True)
    batch, epoch = min(batch, len(rows)), 0
    firsts = range(0, len(rows) - batch + 1, batch)
    while True:
        order = rows.ids(epoch, 0, len(rows))[: firsts[-1] + batch]
        tokens = np.add.reduceat(rows.lengths[order], firsts, dtype=np.int64).tolist()
        for first, count in zip(firsts, tokens, strict=True):
            yield rows.batch(epoch, first, batch), count
        epoch += 1


def collated(collator: Any, rows: Sequence[dict[str, list[int]]]) -> Iterator[Taken]:
    """Give shuffled rows to a collator."""
    batch, epoch = min(ROWS, len(rows)), 0
    while True:
        order = permutation(1, epoch, len(rows)).tolist()
        for first in range(0, len(rows) - batch + 1, batch):
            taken = [dict(rows[at]) for at in order[first : first + batch]]
            tokens = sum(len(row["input_ids"]) for row in taken)
            yield collator(taken), tokens
        epoch += 1


def as_lists(lengths: NDArray[np.int64], *, names: Sequence[str]) -> list[dict[str, list[int]]]:
    """Return rows as a tokenised `datasets` set gives them."""
    ids, mask = chat(lengths)
    ends = np.cumsum(lengths).tolist()
    labels = np.where(mask, ids.astype(np.int64), -100)
    columns = {
        "input_ids": ids,
        "labels": labels,
        "attention_mask": np.ones_like(ids),
        "assistant_masks": mask,
    }
    return [
        {name: columns[name][end - length : end].tolist() for name in names}
        for end, length in zip(ends, lengths.tolist(), strict=True)
    ]


class _Pads:
    """As much of a tokenizer of transformers as padding takes."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast

        made = Tokenizer(models.WordLevel({"<pad>": PAD, "a": 1}, unk_token="a"))
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>")


def seq2seq(lengths: NDArray[np.int64]) -> Iterator[Taken]:
    """Pad with what transformers pads labelled rows with."""
    from transformers import DataCollatorForSeq2Seq

    collator = DataCollatorForSeq2Seq(_Pads().tokenizer, pad_to_multiple_of=8)
    return collated(collator, as_lists(lengths, names=["input_ids", "attention_mask", "labels"]))


def flattening(lengths: NDArray[np.int64]) -> Iterator[Taken]:
    """Flatten with what transformers makes padding-free batches with."""
    from transformers import DataCollatorWithFlattening

    collator = DataCollatorWithFlattening(return_flash_attn_kwargs=True)
    return collated(collator, as_lists(lengths, names=["input_ids", "labels"]))


def trl(lengths: NDArray[np.int64]) -> Iterator[Taken]:
    """Make padding-free batches with TRL's collator for language modelling."""
    try:
        from trl.trainer.sft_trainer import DataCollatorForLanguageModeling
    except ImportError as error:
        raise NotRun(f"trl is not installed here ({error}): make .venv-peers/.ready") from error
    collator = DataCollatorForLanguageModeling(pad_token_id=PAD, padding_free=True)
    return collated(collator, as_lists(lengths, names=["input_ids", "assistant_masks"]))


def timed(batches: Iterator[Taken], count: int) -> Callable[[], dict[str, float]]:
    """Return what takes `count` batches and times them."""

    def once() -> dict[str, float]:
        tokens, began = 0, time.process_time()
        for _ in range(count):
            tokens += next(batches)[1]
        return {PER_TOKEN: (time.process_time() - began) / tokens * 1e9}

    return once


def main(argv: Sequence[str] | None = None) -> None:
    """Take batches by turns."""
    chosen = options(argv, __doc__ or "")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of the peers
    lengths = drawn(300 if chosen.quick else 60_000)
    few = lengths[: min(len(lengths), 6_000)]  # as lists of Python they take 100 bytes a token
    bench = Bench(
        name="collating",
        title=f"D2 batches of {len(lengths):,} chat rows, lognormal mean {MEAN}, per real token",
        options=chosen,
        base=FLOOR,
        quantities=(PER_TOKEN,),
        peers=PEERS,
        goals=GOALS,
    )
    bench.begin()
    with tempfile.TemporaryDirectory() as folder:
        packed = written(Path(folder) / "packed", lengths, is_packed=True)
        plain = written(Path(folder) / "plain", lengths, is_packed=False)
        makers: dict[str, Callable[[], Iterator[Taken]]] = {
            FLOOR: floor,
            PACKED: lambda: hotloop(packed, PACKED_ROWS),
            FREE: lambda: hotloop(plain, ROWS, layout="flat"),
            PADDED: lambda: hotloop(plain, ROWS),
            SEQ2SEQ: lambda: seq2seq(few),
            FLATTENING: lambda: flattening(few),
            TRL: lambda: trl(few),
        }
        batches = bench.gather(makers)
        rows = {
            name: timed(one, 1 if chosen.quick else FEWER.get(name, BATCHES))
            for name, one in batches.items()
        }
        bench.notes.append(
            f"{PACKED_ROWS} packed rows of {LONGEST} a batch, else {ROWS} rows; {PADDED} is per "
            "real token: most of its slots are padding"
        )
        bench.conclude(interleave(rows, rounds=chosen.rounds))


if __name__ == "__main__":
    main()
