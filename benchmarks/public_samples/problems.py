"""Sets of programming problems with their solutions and tests: MBPP, HumanEval, APPS."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.public_samples.columns import sequence, value
from benchmarks.public_samples.writing import HUB, LIBRARY, json_lines, packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.public_samples.columns import Row
    from benchmarks.public_samples.sources import Sources
    from benchmarks.public_samples.writing import Samples

__all__ = ["apps", "humaneval", "mbpp"]

MBPP_SPLITS = {  # the first and the last number of a problem
    "train": (601, 974),
    "test": (11, 510),
    "validation": (511, 600),
    "prompt": (1, 10),
}
MBPP_PARTS = ((1, 139), (511, 759))  # that are taken
HUMANEVAL_HEAD = """

METADATA = {
    'author': 'jt',
    'dataset': 'test'
}


def check(candidate):
"""
APPS_FORMAT = """

-----Input-----

One line with the arguments.

-----Output-----

Print the result.

-----Examples-----
Input
{given}

Output
{expected}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A call of a function, and what it returns."""

    function: str
    given: list[Any]
    expected: Any

    def arguments(self) -> str:
        """Return the arguments as they stand in a call."""
        return ", ".join(map(repr, self.given))


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem of MBPP whose solution is one function and whose tests are literals."""

    number: int
    text: str
    code: str
    function: ast.FunctionDef
    cases: list[Case]


def mbpp(samples: Samples, sources: Sources) -> None:
    """Write MBPP in three forms.

    The shapes are those of github google-research/google-research, folder mbpp, and of the hub's
    google-research-datasets/mbpp.
    """
    problems = [
        problem
        for problem in sources.problems
        if any(first <= problem["task_id"] <= last for first, last in MBPP_PARTS)
    ]
    _mbpp_lines(samples, problems)
    _mbpp_sanitized(samples, problems)
    _mbpp_hub(samples, problems)


def _mbpp_lines(samples: Samples, problems: Sequence[Row]) -> None:
    """Write mbpp.jsonl, with the keys in its order."""
    keys = ("text", "code", "task_id", "test_setup_code", "test_list", "challenge_test_list")
    rows = [{key: problem[key] for key in keys} for problem in problems]
    samples.write("mbpp-jsonl/mbpp.jsonl", json_lines(rows))
    samples.describe(
        "mbpp-jsonl",
        name="MBPP",
        form="mbpp.jsonl (original)",
        kind="code",
        published_by="github google-research/google-research mbpp/mbpp.jsonl",
        notes="code has \\r\\n; splits are task_id ranges: 1-10 prompt, 11-510 test, 511-600 "
        "validation, 601-974 train; one file",
    )


def _mbpp_sanitized(samples: Samples, problems: Sequence[Row]) -> None:
    """Write sanitized-mbpp.json, which has other keys."""
    rows = [
        {
            "source_file": "Benchmark Questions Verification V2.ipynb",
            "task_id": problem["task_id"],
            "prompt": problem["text"],
            "code": problem["code"].replace("\r\n", "\n"),
            "test_imports": ["import math"] if "math." in "".join(problem["test_list"]) else [],
            "test_list": problem["test_list"],
        }
        for problem in problems[:240]
    ]
    samples.write("mbpp-sanitized/sanitized-mbpp.json", json.dumps(rows, indent=2))
    samples.describe(
        "mbpp-sanitized",
        name="MBPP sanitized",
        form="sanitized-mbpp.json",
        kind="code",
        published_by="github google-research/google-research mbpp/sanitized-mbpp.json; "
        f"{LIBRARY} datasets/mbpp/mbpp.py",
        notes="JSON array; the text is called prompt here (text in mbpp.jsonl); test_imports "
        "instead of test_setup_code",
    )


def _mbpp_hub(samples: Samples, problems: Sequence[Row]) -> None:
    """Write the configuration full of the repository google-research-datasets/mbpp."""
    columns = {
        "task_id": value("int32"),
        "text": value(),
        "code": value(),
        "test_list": sequence(value()),
        "test_setup_code": value(),
        "challenge_test_list": sequence(value()),
    }
    splits = {
        split: [problem for problem in problems if first <= problem["task_id"] <= last]
        for split, (first, last) in MBPP_SPLITS.items()
    }
    samples.write_hub("mbpp-hub-parquet", splits, columns, folder="full", config="full")
    samples.describe(
        "mbpp-hub-parquet",
        name="MBPP",
        form="hub parquet (google-research-datasets/mbpp, config full)",
        kind="code",
        published_by=f"{HUB}google-research-datasets/mbpp; "
        f"{LIBRARY} datasets/mbpp/dataset_infos.json",
        notes="four splits: train, test, validation, prompt",
    )


def _understood(sources: Sources) -> list[Problem]:
    """Return the problems that are one function with tests of literals."""
    return [problem for row in sources.problems if (problem := _problem(row))]


def _problem(row: Row) -> Problem | None:
    """Return a row of MBPP as a problem; None where its code or a test has another form."""
    code = row["code"].replace("\r\n", "\n").replace("\t", "    ")
    try:
        body = ast.parse(code).body
        tests = [_case(test) for test in row["test_list"]]
    except (SyntaxError, ValueError, TypeError):  # of literal_eval: a call, or a set of lists
        return None
    cases = [case for case in tests if case is not None]
    if not cases or len(cases) < len(tests) or len(body) != 1:
        return None
    function = body[0]
    if not isinstance(function, ast.FunctionDef) or function.name != cases[0].function:
        return None
    return Problem(
        number=row["task_id"], text=row["text"], code=code, function=function, cases=cases
    )


def _case(test: str) -> Case | None:
    """Return the case of `assert function(literals) == literal`."""
    match ast.parse(test).body:
        case [
            ast.Assert(
                test=ast.Compare(
                    left=ast.Call(func=ast.Name(id=name), args=arguments),
                    comparators=[expected, *_],
                )
            ),
            *_,
        ]:
            given = [ast.literal_eval(argument) for argument in arguments]
            return Case(function=name, given=given, expected=ast.literal_eval(expected))
    return None


def humaneval(samples: Samples, sources: Sources) -> None:
    """Write HumanEval.jsonl, unpacked and as github openai/human-eval publishes it."""
    rows: list[Row] = []
    for problem in _understood(sources)[:164]:
        if problem.function.body[0].lineno > problem.function.lineno:
            rows.append(_completed(problem, len(rows)))
    content = json_lines(rows)
    samples.write("humaneval-jsonl/HumanEval.jsonl", content)
    samples.write("humaneval-gz/data/HumanEval.jsonl.gz", packed(content))
    notes = (
        "prompt ends inside the function after its docstring, canonical_solution is the indented "
        "rest; one file, no split"
    )
    publisher = "github openai/human-eval data/HumanEval.jsonl.gz"
    samples.describe(
        "humaneval-jsonl",
        name="HumanEval",
        form="HumanEval.jsonl (unpacked)",
        kind="code",
        published_by=publisher,
        notes=notes,
    )
    samples.describe(
        "humaneval-gz",
        name="HumanEval",
        form="HumanEval.jsonl.gz as published",
        kind="code",
        published_by=publisher,
        notes=f"{notes}; published packed",
        within="data",
    )


def _completed(problem: Problem, number: int) -> Row:
    """Return a problem whose prompt is the head of the function with its task as a docstring."""
    name, example = problem.function.name, problem.cases[0]
    lines = problem.code.split("\n")
    start = problem.function.body[0].lineno - 1
    head = "\n".join(lines[problem.function.lineno - 1 : start]).rstrip()
    indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
    prompt = (
        f"{head}\n"
        f'{indent}""" {problem.text}\n'
        f"{indent}>>> {name}({example.arguments()})\n"
        f"{indent}{example.expected!r}\n"
        f'{indent}"""\n'
    )
    checks = [
        f"    assert candidate({case.arguments()}) == {case.expected!r}\n" for case in problem.cases
    ]
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": prompt,
        "entry_point": name,
        "canonical_solution": "\n".join(lines[start:]).rstrip() + "\n",
        "test": HUMANEVAL_HEAD + "".join(checks) + "\n",
    }


def apps(samples: Samples, sources: Sources) -> None:
    """Write APPS in two forms.

    The shapes are those of the hub's codeparrot/apps and of github hendrycks/apps.
    """
    problems = [problem for problem in _understood(sources) if _is_json(problem)]
    for split, some in (("train", problems[:200]), ("test", problems[200:340])):
        rows = [
            _contest(problem, number, is_test=split == "test")
            for number, problem in enumerate(some)
        ]
        _apps_lines(samples, split, rows)
        _apps_folders(samples, split, rows)
    samples.describe(
        "apps-hub-jsonl",
        name="APPS",
        form="hub jsonl (codeparrot/apps train.jsonl, test.jsonl)",
        kind="code",
        published_by=f"{HUB}codeparrot/apps (card, apps.py)",
        notes="solutions and input_output are strings that hold JSON, '' where there are none; "
        "file names and columns verified; raw lines have id (seen in a user's reader of "
        "train.jsonl), which the loader calls problem_id; key order from memory",
    )
    samples.describe(
        "apps-folders",
        name="APPS",
        form="original folder tree",
        kind="code",
        published_by="github hendrycks/apps (train/dataset_apps/APPSBaseDataset.py, "
        "eval/testing_util.py)",
        notes="four digits folder per problem; solutions.json is missing in part of test, "
        "starter_code.py only with call-based problems (fn_name)",
        within="APPS",
    )


def _is_json(problem: Problem) -> bool:
    """Whether the cases have no value that JSON lacks, such as a set."""
    try:
        json.dumps([[case.given, case.expected] for case in problem.cases])
    except TypeError:
        return False
    return True


def _contest(problem: Problem, number: int, *, is_test: bool) -> Row:
    """Return a problem with the hub's keys: each third one is a call, the others read a line."""
    name, cases = problem.function.name, problem.cases
    solution, starter, question = problem.code + "\n", "", problem.text + "\n"
    if number % 3 == 0:
        parameters = ", ".join(argument.arg for argument in problem.function.args.args)
        starter = f"def {name}({parameters}):\n\t"
        tests = {
            "fn_name": name,
            "inputs": [case.given for case in cases],
            "outputs": [[case.expected] for case in cases],
        }
        address = f"https://www.codewars.com/kata/{problem.number}"
    else:
        first = {"given": repr(tuple(cases[0].given)), "expected": cases[0].expected}
        question = problem.text + APPS_FORMAT.format(**first)
        solution = f"import ast\n{problem.code}\nprint({name}(*ast.literal_eval(input())))\n"
        tests = {
            "inputs": [f"{tuple(case.given)!r}\n" for case in cases],
            "outputs": [f"{case.expected}\n" for case in cases],
        }
        address = f"https://codeforces.com/problemset/problem/{1000 + number}/A"
    solutions = [solution, f"# second\n{solution}"][: 1 + number % 2]
    difficulties = ("interview", "introductory", "competition")
    return {
        "id": number,
        "question": question,
        "solutions": [] if is_test and number % 5 == 2 else solutions,
        "input_output": None if number % 11 == 4 else tests,
        "difficulty": difficulties[number % 3 if number % 7 else 2],
        "url": address,
        "starter_code": starter,
    }


def _apps_lines(samples: Samples, split: str, rows: Sequence[Row]) -> None:
    """Write the hub's file of a split: two of its keys hold JSON as text, or nothing."""
    records = []
    for row in rows:
        texts = {
            key: json.dumps(row[key]) if row[key] else "" for key in ("solutions", "input_output")
        }
        records.append(row | texts)
    samples.write(f"apps-hub-jsonl/{split}.jsonl", json_lines(records))


def _apps_folders(samples: Samples, split: str, rows: Sequence[Row]) -> None:
    """Write a folder for each problem; a file that has nothing to say is left out."""
    for row in rows:
        folder = f"apps-folders/APPS/{split}/{row['id']:04d}"
        samples.write(f"{folder}/question.txt", row["question"])
        metadata = {"difficulty": row["difficulty"], "url": row["url"]}
        samples.write(f"{folder}/metadata.json", json.dumps(metadata))
        for key in ("solutions", "input_output"):
            if row[key]:
                samples.write(f"{folder}/{key}.json", json.dumps(row[key]))
        if row["starter_code"]:
            samples.write(f"{folder}/starter_code.py", row["starter_code"])
