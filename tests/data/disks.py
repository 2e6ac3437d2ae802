"""Data sets as libraries leave them on a disk, made by hand and small."""

import json
from pathlib import Path

import pyarrow
from pyarrow import ipc, parquet

from hotloop.core.env import Environment

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def environment(folder: Path) -> Environment:
    """Return an environment whose caches all lie in `folder`."""
    return Environment.read(
        {"HOTLOOP_CACHE": str(folder / "own"), "HF_HOME": str(folder / "hf"), "NO_COLOR": "1"}
    )


def lines(rows: int) -> bytes:
    return b"".join(b'{"n": %d}\n' % n for n in range(rows))


def table(rows: int) -> bytes:
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table({"n": list(range(rows))}), sink)
    return sink.getvalue().to_pybytes()


def arrow(path: Path, rows: int) -> None:
    """Write an Arrow stream, as datasets does."""
    values = pyarrow.table({"n": list(range(rows))})
    with path.open("wb") as sink, ipc.new_stream(sink, values.schema) as writer:
        writer.write_table(values)


def repository(hub: Path, kind: str, name: str, files: dict[str, bytes]) -> Path:
    """Make a repository as huggingface_hub keeps it: blobs, links to them by commit, refs."""
    home = hub / f"{kind}s--{name.replace('/', '--')}"
    (home / "blobs").mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(COMMIT)
    for n, (file, data) in enumerate(files.items()):
        blob = home / "blobs" / f"{n:064x}"
        blob.write_bytes(data)
        link = home / "snapshots" / COMMIT / file
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(Path(*[".."] * (2 + file.count("/")), "blobs", blob.name))
    return home


def built(datasets: Path, name: str, config: str, splits: dict[str, int]) -> Path:
    """Make an entry of datasets' cache."""
    home = datasets / name.replace("/", "___") / config / "0.0.0" / "d78d5935"
    home.mkdir(parents=True)
    short = name.rpartition("/")[2]
    for split, rows in splits.items():
        arrow(home / f"{short}-{split}.arrow", rows)
    about = {
        "builder_name": "parquet",
        "dataset_name": short,
        "config_name": config,
        "splits": {
            s: {"name": s, "num_bytes": 8 * n, "num_examples": n} for s, n in splits.items()
        },
    }
    (home / "dataset_info.json").write_text(json.dumps(about))
    (home.parent / "d78d5935_builder.lock").touch()
    return home


def saved(folder: Path, splits: dict[str, int]) -> Path:
    """Make what save_to_disk leaves of a DatasetDict."""
    for split, rows in splits.items():
        inner = folder / split
        inner.mkdir(parents=True)
        arrow(inner / "data-00000-of-00001.arrow", rows)
        stale = {"splits": {split: {"num_examples": 5 * rows}}}
        (inner / "dataset_info.json").write_text(json.dumps(stale))
        state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": split}
        (inner / "state.json").write_text(json.dumps(state))
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))
    return folder


def characters(cache: Path, train: int, valid: int) -> Path:
    """Make what data.tokens keeps of a text."""
    folder = cache / "tokens" / "00112233445566778899aabbccddeeff"
    folder.mkdir(parents=True)
    (folder / "train.bin").write_bytes(bytes(2 * train))
    (folder / "valid.bin").write_bytes(bytes(2 * valid))
    about = {"schema": 1, "kind": "characters", "train_tokens": train, "valid_tokens": valid}
    (folder / "about.json").write_text(json.dumps(about))
    return folder
