"""List the formats that are read; a new format is a value in its reader's file, named here."""

from hotloop.data.readers import arrow, csv, json_array, jsonlines, parallel, prose

__all__ = ["BY_SUFFIX", "FORMATS"]

_ALL = (
    *(jsonlines.JSONL, json_array.JSON, csv.CSV, csv.TSV),
    *(arrow.PARQUET, arrow.ARROW, prose.TXT, parallel.PARALLEL),
)
FORMATS = {format.name: format for format in _ALL}
_SUFFIXES = {suffix: format for format in _ALL for suffix in format.suffixes}
BY_SUFFIX = {suffix: _SUFFIXES[suffix] for suffix in sorted(_SUFFIXES)}
