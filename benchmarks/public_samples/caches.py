"""Sets as the libraries `datasets` and `huggingface_hub` leave them on a disk."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

from benchmarks.public_samples.classification import SST2_COLUMNS
from benchmarks.public_samples.columns import label, parquet, value
from benchmarks.public_samples.imdb import IMDB_COLUMNS
from benchmarks.public_samples.writing import HUB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.public_samples.columns import Row
    from benchmarks.public_samples.writing import Samples

__all__ = ["hub_cache", "library_cache", "saved_to_disk"]

SHARD = "data-00000-of-00001.arrow"
LIBRARY_CACHE = "hf-datasets-cache/huggingface/datasets"
HUB_CACHE = "hf-hub-cache/huggingface/hub"
# The columns stand in another order than in nyu-mll/glue.
HUB_CACHE_COLUMNS = {
    "idx": value("int32"),
    "sentence": value(),
    "label": label("negative", "positive"),
}
REVISION = "8d51e7e4887a4caaa95b3fbebbf53c0490b58bbb"  # of stanfordnlp/sst2
CARD = b"""---
dataset_info:
  features:
  - name: idx
    dtype: int32
  - name: sentence
    dtype: string
  - name: label
    dtype:
      class_label:
        names:
          '0': negative
          '1': positive
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*
  - split: validation
    path: data/validation-*
  - split: test
    path: data/test-*
---
"""


def _info(
    columns: Row, *, dataset: str, config: str, counts: Mapping[str, int], sizes: Mapping[str, int]
) -> Row:
    """Return what dataset_info.json says; `sizes` are the bytes of the splits in memory."""
    total = sum(sizes.values())
    origin = f"hf://datasets/{dataset}@{'bc' * 20}/{config}"
    return {
        "description": "",
        "citation": "",
        "homepage": "",
        "license": "",
        "features": columns,
        "builder_name": "parquet",
        "dataset_name": dataset,
        "config_name": config,
        "version": {"version_str": "0.0.0", "major": 0, "minor": 0, "patch": 0},
        "splits": {
            split: {
                "name": split,
                "num_bytes": sizes[split],
                "num_examples": count,
                "dataset_name": dataset,
            }
            for split, count in counts.items()
        },
        "download_checksums": {
            f"{origin}/{split}-00000-of-00001.parquet": {
                "num_bytes": sizes[split] // 2,
                "checksum": None,
            }
            for split in counts
        },
        "download_size": total // 2,
        "dataset_size": total,
        "size_in_bytes": total * 3 // 2,
    }


def saved_to_disk(samples: Samples, sst2: Mapping[str, Sequence[Row]]) -> None:
    """Write SST-2 as DatasetDict.save_to_disk does.

    The shape is that of src/datasets/arrow_dataset.py and dataset_dict.py of github
    huggingface/datasets.
    """
    folder = "sst2-save-to-disk/sst2"
    sizes = {
        split: samples.write_arrow(f"{folder}/{split}/{SHARD}", rows, SST2_COLUMNS)
        for split, rows in sst2.items()
    }
    counts = {split: len(rows) for split, rows in sst2.items()}
    info = _info(SST2_COLUMNS, dataset="glue", config="sst2", counts=counts, sizes=sizes)
    by_name = {key: info[key] for key in sorted(info)}
    for split in sst2:
        state: Row = {
            "_data_files": [{"filename": SHARD}],
            "_fingerprint": hashlib.md5(split.encode()).hexdigest()[:16],
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": split,
        }
        samples.write(f"{folder}/{split}/dataset_info.json", json.dumps(by_name, indent=2))
        content = json.dumps(state, indent=2, sort_keys=True)
        samples.write(f"{folder}/{split}/state.json", content)
    samples.write(f"{folder}/dataset_dict.json", json.dumps({"splits": list(sst2)}))
    samples.describe(
        "sst2-save-to-disk",
        name="SST-2",
        form="datasets save_to_disk (DatasetDict)",
        kind="classification",
        published_by="github huggingface/datasets src/datasets/arrow_dataset.py, dataset_dict.py "
        "(save_to_disk)",
        notes="Arrow stream format, not IPC file; ClassLabel names in dataset_info.json and in the "
        "schema metadata; test label -1",
        within="sst2",
    )


def library_cache(
    samples: Samples, sst2: Mapping[str, Sequence[Row]], imdb: Mapping[str, Sequence[Row]]
) -> None:
    """Write SST-2 and IMDB as load_dataset leaves them in HF_DATASETS_CACHE.

    The shape is that of src/datasets/builder.py (_relative_data_dir), naming.py and info.py of
    github huggingface/datasets.
    """
    _cached(
        samples,
        "glue/sst2/0.0.0/bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c",
        sst2,
        SST2_COLUMNS,
        dataset="glue",
        config="sst2",
    )
    _cached(
        samples,
        "stanfordnlp___imdb/plain_text/0.0.0/e6281661ce1c48d982bc483cf8a173c1bbeb5d31",
        imdb,
        IMDB_COLUMNS,
        dataset="imdb",
        config="plain_text",
    )
    samples.describe(
        "hf-datasets-cache",
        name="SST-2 and IMDB",
        form="datasets cache (HF_DATASETS_CACHE)",
        kind="classification",
        published_by="github huggingface/datasets src/datasets/builder.py (_relative_data_dir), "
        "naming.py, info.py",
        notes="two sets in one cache: glue/sst2/0.0.0/<hash>/glue-<split>.arrow and "
        "stanfordnlp___imdb/plain_text/0.0.0/<hash>/imdb-<split>.arrow; no namespace when loaded "
        "as 'glue'; lock files' exact names from memory",
        within="huggingface/datasets",
    )


def _cached(
    samples: Samples,
    place: str,
    splits: Mapping[str, Sequence[Row]],
    columns: Row,
    *,
    dataset: str,
    config: str,
) -> None:
    """Write a set of the cache, and the lock files that stay beside it."""
    folder = f"{LIBRARY_CACHE}/{place}"
    sizes = {
        split: samples.write_arrow(f"{folder}/{dataset}-{split}.arrow", rows, columns)
        for split, rows in splits.items()
    }
    counts = {split: len(rows) for split, rows in splits.items()}
    info = _info(columns, dataset=dataset, config=config, counts=counts, sizes=sizes)
    samples.write(f"{folder}/dataset_info.json", json.dumps(info))
    samples.write(f"{folder}_builder.lock", "")
    samples.write(f"{folder}.incomplete_info.lock", "")
    # The library names a lock after the whole path of the cache, here one in root's home.
    flat = place.replace("/", "_")
    samples.write(f"{LIBRARY_CACHE}/_root_.cache_huggingface_datasets_{flat}.lock", "")


def hub_cache(samples: Samples, sst2: Mapping[str, Sequence[Row]]) -> None:
    """Write SST-2 as huggingface_hub leaves the repository stanfordnlp/sst2 in its cache.

    A file of a snapshot is a link to a blob, which is named after its checksum: SHA-256 for large
    files, git's SHA-1 for the others.
    """
    repository = f"{HUB_CACHE}/datasets--stanfordnlp--sst2"
    for split, rows in sst2.items():
        content = parquet(rows, HUB_CACHE_COLUMNS)
        checksum = hashlib.sha256(content).hexdigest()
        file = f"data/{split}-00000-of-00001.parquet"
        _linked(samples, repository, file, content, checksum)
    checksum = hashlib.sha1(b"blob %d\0" % len(CARD) + CARD).hexdigest()
    _linked(samples, repository, "README.md", CARD, checksum)
    samples.write(f"{repository}/refs/main", REVISION)
    samples.write(f"{repository}/.no_exist/{REVISION}/dataset_infos.json", "")
    samples.write(f"{HUB_CACHE}/.locks/datasets--stanfordnlp--sst2/x.lock", "")
    samples.write(f"{HUB_CACHE}/version.txt", "1")
    samples.describe(
        "hf-hub-cache",
        name="SST-2",
        form="huggingface_hub cache",
        kind="classification",
        published_by=f"huggingface_hub cache layout; {HUB}stanfordnlp/sst2 "
        "(datasets--stanfordnlp--sst2/snapshots/*/data/<split>-*.parquet)",
        notes="snapshot files are relative symlinks into blobs/ (sha256 for LFS, git sha1 for "
        "README); column order idx,sentence,label, unlike glue; refs/main without newline; .locks "
        "and .no_exist from memory",
        within="huggingface/hub",
    )


def _linked(samples: Samples, repository: str, file: str, content: bytes, checksum: str) -> None:
    """Write a blob, and link to it from the snapshot."""
    blob = samples.write(f"{repository}/blobs/{checksum}", content)
    link = blob.parents[1] / "snapshots" / REVISION / file
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(blob, link.parent))
