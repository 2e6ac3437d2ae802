"""Spider: questions with SQL queries, their parse trees, and the databases they are about."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.public_samples.columns import sequence, value
from benchmarks.public_samples.writing import HUB, LIBRARY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.public_samples.columns import Row
    from benchmarks.public_samples.sources import Sources
    from benchmarks.public_samples.writing import Samples

__all__ = ["spider"]

TREE = "spider-folder/spider"
DATABASES = ("advising", "college_advising")  # the second one has the tables of the first
LONGEST = 700  # characters of a query
EVERY_UNION = 60  # query of which one is doubled with UNION
CONDITION = re.compile(r"([\w.]+) (=|>|<) (\"[^\"]*\"|\d+)")
OPERATORS = {"=": 2, ">": 3, "<": 4}  # numbers of Spider's WHERE_OPS
COUNT = 3  # number in Spider's AGG_OPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The tables of a database, each with (column, SQL type)."""

    tables: dict[str, list[tuple[str, str]]]

    def names(self) -> list[str]:
        """Return the names of the tables."""
        return list(self.tables)

    def columns(self) -> list[tuple[int, str, str]]:
        """Return (number of the table, column, Spider's type); the first one is the star."""
        found = [(-1, "*", "text")]
        for number, columns in enumerate(self.tables.values()):
            for name, kind in columns:
                is_number = "int" in kind or "dec" in kind
                found.append((number, name, "number" if is_number else "text"))
        return found

    def place(self, name: str) -> int:
        """Return the number of a column by its name, 0 if there is none."""
        short = name.split(".")[-1].lower()
        for number, (_, column, _) in enumerate(self.columns()):
            if column.lower() == short:
                return number
        return 0

    def definition(self) -> str:
        """Return the SQL that makes the tables."""
        found = []
        for table, columns in self.tables.items():
            cells = ", ".join(f"{name!r} {kind}" for name, kind in columns)
            found.append(f"CREATE TABLE {table} ({cells});\n")
        return "".join(found)


def spider(samples: Samples, sources: Sources) -> None:
    """Write Spider in two forms.

    The shapes are those of github taoyds/spider and of the hub's xlangai/spider.
    """
    schema = _schema(sources.schema)
    rows = [
        row
        for row in sources.queries
        if len(row["output"]) < LONGEST and row["output"].startswith("SELECT")
    ]
    first, second = DATABASES
    examples = [
        _example(
            row,
            schema,
            database=first if number < 430 else second,
            is_union=not number % EVERY_UNION,
        )
        for number, row in enumerate(rows[:580])
    ]
    parts = {
        "train_spider": examples[:300],
        "train_others": examples[300:430],
        "dev": examples[430:],
    }
    _folder(samples, schema, parts)
    _hub(samples, parts)


def _schema(lines: Sequence[str]) -> Schema:
    """Return the tables of lines of `table, column, type, ...`."""
    tables: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        cells = [cell.strip().rstrip(",").strip() for cell in line.split(", ")]
        if cells[0] not in ("-", "") and len(cells) > 2:
            tables.setdefault(cells[0], []).append((cells[1], cells[2]))
    return Schema(tables=tables)


def _example(row: Row, schema: Schema, *, database: str, is_union: bool) -> Row:
    """Return a question with its query, the tokens of both, and the tree of the query."""
    query = row["output"].rstrip("; ").strip()
    if is_union:
        query = f"{query} UNION {query}"
    tokens = query.split()
    selects = query.split(" UNION ")
    tree = _tree(selects[0], schema)
    tree["union"] = _tree(selects[1], schema) if len(selects) > 1 else None
    return {
        "db_id": database,
        "query": query,
        "query_toks": tokens,
        "query_toks_no_value": [
            "value" if token[0] in "\"'" or token.isdigit() else token.lower() for token in tokens
        ],
        "question": row["instruction"],
        "question_toks": re.findall(r"\w+|[^\w\s]", row["instruction"]),
        "sql": tree,
    }


def _tree(query: str, schema: Schema) -> Row:
    """Return a shallow tree in Spider's nesting: lists hold numbers, booleans, text and lists."""
    selected = re.search(r"SELECT (DISTINCT )?(.*?) FROM", query)
    tables = [
        ["table_unit", number]
        for number, name in enumerate(schema.names())
        if re.search(rf"\b{name} AS\b", query)
    ]
    columns = [
        [COUNT if "COUNT" in name.upper() else 0, _unit(schema.place(name.strip()))]
        for name in (selected[2] if selected else "*").split(",")
    ]
    is_ordered = "ORDER BY" in query
    return {
        "from": {"table_units": tables or [["table_unit", 0]], "conds": []},
        "select": [bool(selected and selected[1]), columns],
        "where": _conditions(query, schema),
        "groupBy": [],
        "having": [],
        "orderBy": ["desc", [_unit(schema.place("credits"))]] if is_ordered else [],
        "limit": 1 if "LIMIT" in query else None,
        "intersect": None,
        "union": None,
        "except": None,
    }


def _conditions(query: str, schema: Schema) -> list[Any]:
    """Return the conditions with "and" between them; a number is a float, a text keeps quotes."""
    found: list[Any] = []
    for name, operator, operand in CONDITION.findall(query):
        if found:
            found.append("and")
        bound = operand if operand[0] == '"' else float(operand)
        found.append([False, OPERATORS[operator], _unit(schema.place(name)), bound, None])
    return found


def _unit(column: int) -> list[Any]:
    """Return the unit of a column without an operator and without an aggregate."""
    return [0, [0, column, False], None]


def _folder(samples: Samples, schema: Schema, parts: Mapping[str, Sequence[Row]]) -> None:
    """Write the published folder with its databases, which are empty here."""
    for part, rows in parts.items():
        samples.write(f"{TREE}/{part}.json", json.dumps(rows, indent=4))
    descriptions = [_description(schema, database) for database in DATABASES]
    samples.write(f"{TREE}/tables.json", json.dumps(descriptions, indent=3))
    train = [*parts["train_spider"], *parts["train_others"]]
    for name, rows in (("train_gold", train), ("dev_gold", parts["dev"])):
        lines = [f"{row['query']}\t{row['db_id']}\n" for row in rows]
        samples.write(f"{TREE}/{name}.sql", "".join(lines))
    samples.write(
        f"{TREE}/README.txt",
        "Spider 1.0: train_spider.json, train_others.json, dev.json, tables.json, train_gold.sql, "
        "dev_gold.sql, database/\n",
    )
    for database in DATABASES:
        folder = f"{TREE}/database/{database}"
        path = samples.write(f"{folder}/schema.sql", schema.definition())
        with closing(sqlite3.connect(path.with_name(f"{database}.sqlite"))) as connection:
            connection.executescript(schema.definition())
            connection.commit()
    samples.describe(
        "spider-folder",
        name="Spider",
        form="original folder",
        kind="code",
        published_by="github taoyds/spider (README, evaluation_examples/examples); "
        f"{LIBRARY} datasets/spider/spider.py",
        notes="the sql key is a nested tree with mixed types inside lists (bool, number, list, "
        "'and') that no Arrow column holds; *_gold.sql: query TAB db_id; database/ with sqlite "
        "files; sql trees here are shallow",
        within="spider",
    )


def _description(schema: Schema, database: str) -> Row:
    """Return a database as tables.json describes it."""
    columns, tables = schema.columns(), schema.names()
    return {
        "column_names": [[table, name.replace("_", " ").lower()] for table, name, _ in columns],
        "column_names_original": [[table, name] for table, name, _ in columns],
        "column_types": [kind for _, _, kind in columns],
        "db_id": database,
        "foreign_keys": [[2, 1]],
        "primary_keys": [1],
        "table_names": [name.replace("_", " ").lower() for name in tables],
        "table_names_original": tables,
    }


def _hub(samples: Samples, parts: Mapping[str, Sequence[Row]]) -> None:
    """Write the repository xlangai/spider, which leaves the trees out."""
    columns = {"db_id": value(), "query": value(), "question": value()}
    tokens = ("query_toks", "query_toks_no_value", "question_toks")
    columns |= {name: sequence(value()) for name in tokens}
    train = [*parts["train_spider"], *parts["train_others"]]
    splits = {"train": train, "validation": parts["dev"]}
    samples.write_hub("spider-hub-parquet", splits, columns, folder="spider", config="spider")
    samples.describe(
        "spider-hub-parquet",
        name="Spider",
        form="hub parquet (xlangai/spider)",
        kind="code",
        published_by=f"{HUB}xlangai/spider; {LIBRARY} datasets/spider/spider.py",
        notes="without the sql column; parquet path from memory",
    )
