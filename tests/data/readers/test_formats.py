"""A format is one value: what is known of it stands in its reader's file, and nowhere else."""

import ast
import importlib
import json

import pytest
from tests.paths import ROOT

from hotloop.data.discovery.results import DataFile
from hotloop.data.discovery.row_count import ReadBudget, count_rows
from hotloop.data.readers.bad_rows import Faults
from hotloop.data.readers.file_names import format_of
from hotloop.data.readers.formats import BY_SUFFIX, FORMATS
from hotloop.data.readers.portions import Format
from hotloop.data.readers.records import find_sources, rows, work

DATA = ROOT / "src" / "hotloop" / "data"
# Words that are no question about a format: (file, word) -> why.
ALLOWED = {
    **{
        ("discovery/library_caches.py", word): "a builder of the library datasets"
        for word in ("arrow", "csv", "json", "parquet")
    },
    ("discovery/project_references.py", ".json"): "settings that name data",
    ("readers/clean_text.py", ".txt"): "files that are read as they are, by no format",
    ("tokenising/tokenize.py", ".jsonl"): "the journal of an unfinished folder of tokens",
}
WORDS = {*FORMATS, *BY_SUFFIX}
# A format without a suffix is told by other things than a file's name, and has its own tests.
NAMED = [format for format in FORMATS.values() if format.suffixes]
EVERY = pytest.mark.parametrize("format", NAMED, ids=lambda format: format.name)


def strings(tree):
    """Yield the constants that are text, but no docstrings."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node


def owners():
    """Return the file that defines each format, by its name and suffixes."""
    found = {}
    for path in sorted((DATA / "readers").glob("*.py")):
        module = importlib.import_module(f"hotloop.data.readers.{path.stem}")
        for node in ast.parse(path.read_text()).body:
            name = ast.unparse(node).partition("=")[0].partition(":")[0].strip()
            if isinstance(node, ast.Assign | ast.AnnAssign) and (
                isinstance(value := vars(module).get(name), Format)
            ):
                found |= dict.fromkeys((value.name, *value.suffixes), f"readers/{path.name}")
    return found


def test_formats_without_a_suffix_are_tested_elsewhere():
    assert [format.name for format in FORMATS.values() if not format.suffixes] == ["parallel"]


def test_only_the_readers_file_names_a_format():
    owner, wrong = owners(), []
    lacking = {f"{word} of data/{owner[word]}" for word in owner.keys() - WORDS}
    assert not lacking, f"no format of data/readers/formats.py has {', '.join(sorted(lacking))}"
    for path in sorted(DATA.rglob("*.py")):
        file = str(path.relative_to(DATA))
        for node in strings(ast.parse(path.read_text())):
            word = node.value
            if word in WORDS and owner[word] != file and (file, word) not in ALLOWED:
                wrong.append(f"data/{file}:{node.lineno} names {word!r}: it is of {owner[word]}")
    assert not wrong, (
        "ask FORMATS[name] of data/readers/formats.py, and give Format a field for what it does not"
        " say yet; what is no question about a format is listed in ALLOWED of this test\n"
        + "\n".join(wrong)
    )


def test_names_and_suffixes_belong_to_one_format():
    suffixes = [suffix for format in FORMATS.values() for suffix in format.suffixes]
    assert sorted(suffixes) == list(BY_SUFFIX)
    assert all(suffix == suffix.lower() and suffix[0] == "." for suffix in suffixes)
    assert [format.name for format in FORMATS.values()] == list(FORMATS)


def written(format, path):
    """Write three rows with the columns a and b, or three lines."""
    table = [{"a": f"one {n}", "b": "x"} for n in range(3)]
    if format.is_columnar:
        import pyarrow
        from pyarrow import feather, parquet

        write = {"parquet": parquet.write_table, "arrow": feather.write_feather}[format.name]
        write(pyarrow.Table.from_pylist(table), path)
    elif (delimiter := getattr(format.portions, "keywords", {}).get("delimiter")) is not None:
        parted = delimiter.join
        path.write_text("".join(f"{parted(row)}\n" for row in (table[0], *map(dict.values, table))))
    elif format.name == "json":
        path.write_text(json.dumps(table))
    elif format.name == "jsonl" or format.is_plain_text:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in table))
    else:
        pytest.fail(f"say in `written` of this test how three rows are written as {format.name}")


@EVERY
def test_what_is_written_in_a_format_is_found_counted_and_read(format, tmp_path):
    path = tmp_path / f"rows{format.suffixes[0]}"
    written(format, path)
    assert format_of(path.name) == format.name
    (source,) = find_sources([str(tmp_path)], documents="line").files
    assert (source.format, source.path.name) == (format.name, path.name)
    faults = Faults("stop")
    records = [record for part in work(source) for _, record in rows(part, faults)]
    assert len(records) == 3
    assert format.is_plain_text or records[1] == {"a": "one 1", "b": "x"}
    file = DataFile.of(path, path.stat(), split="train", format=format.name)
    assert count_rows(file, ReadBudget()) == 3
