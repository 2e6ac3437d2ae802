"""`hotloop run` changes nothing: 26 scripts give the same with it, without it, and when it fails.

Compared are exit code, stdout, tracebacks, warnings and every file below the working directory,
weights among them. The suite runs the cases marked `quick`, and starts `hotloop run` for most of
them as a fork that has torch; the other side is always Python itself. `make campaign` runs all
cases, each in processes of their own, and there every script is first compared with itself.
"""

import ast
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.paths import ROOT
from tests.preloaded import ForkedProcess, Preloaded

SCRIPTS = ROOT / "examples" / "faithful"
HOTLOOP = (sys.executable, "-m", "hotloop", "run")
DOCTOR = (sys.executable, "-m", "hotloop", "doctor", "--full", "--experiments", "1")
MAY_STOP = (*DOCTOR[:4], "--steps", "100", "--experiments", "1")
LIMIT = 240  # seconds; `children`, twice at once on two busy cores, took 74 s (2026-11)
# Imported by a script, none themselves.
HELPERS = {"stranger_lib", "whoami_part", "pack/__init__", "pack/net"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to start one script, and what plain Python answers."""

    script: str  # below examples/faithful, without .py
    args: tuple[str, ...] = ()
    stdin: str = ""
    code: int = 0  # negative: the number of the signal that ended it
    needs: str | None = None  # a package that hotloop itself does not need
    module: bool = False  # started with -m
    quick: bool = False
    forks: bool = False  # in the suite; only with `quick`
    faults: bool = True  # it passes a door, and lives to hear of it

    @property
    def command(self) -> tuple[str, ...]:
        if self.module:
            return ("-m", "faithful." + self.script.replace("/", "."), *self.args)
        return (f"faithful/{self.script}.py", *self.args)

    @property
    def name(self) -> str:
        return " ".join((self.script, *self.args))


USAGE = ("--with", "adam", "--json", "a.json", "--steps", "3", "-m", "x", "--", "--out", "y")
CASES = (
    Case(script="digits", quick=True),
    Case(script="stripes_vae", args=("results",)),
    Case(script="word_model"),
    Case(script="two_nets"),
    Case(script="polynomial", quick=True, forks=True),
    Case(script="sine_lbfgs"),
    Case(script="sine_lbfgs", args=("--steps", "1", "--out", "w")),
    Case(script="char_gpt", args=("steps=10", "out_dir=chars")),
    Case(script="sentence_pairs", needs="accelerate"),
    Case(script="lightning_autoencoder", needs="lightning"),
    Case(script="legendre"),
    Case(script="usage", args=USAGE),
    Case(
        script="usage",
        args=("--with", "fused-adamw"),
        code=2,
        quick=True,
        forks=True,
        faults=False,
    ),
    Case(script="usage", args=("--help",), quick=True, forks=True, faults=False),
    Case(script="exit_code", args=("code",), code=3),
    Case(script="exit_code", args=("message",), code=1),
    Case(script="exit_code", args=("hard",), code=4, faults=False),
    Case(script="uncaught", args=("error",), code=1, quick=True, forks=True),
    Case(script="uncaught", args=("interrupt",), code=-signal.SIGINT),
    Case(script="uncaught", args=("hook",), code=1),
    Case(script="uncaught", args=("module",), code=1),
    Case(script="stranger", quick=True),
    Case(script="spawn_workers"),
    Case(script="fork_workers", quick=True, forks=True),
    Case(script="whoami", args=("a b", "--steps=3", "")),
    Case(script="pack/train", args=("results", "-m"), module=True),
    Case(script="children"),
    Case(script="stop_signal", args=("--handler",), code=143),
    Case(script="stop_signal", code=-signal.SIGTERM, faults=False),
    Case(script="mixed_precision"),
    Case(script="gradient_penalty"),
    Case(script="own_hooks"),
    Case(script="compiled"),
    Case(script="copies"),
    Case(script="late_import", stdin="5\nred\ngreen\nblue"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run left behind, with the path of its folder taken out of what it printed."""

    code: int
    stdout: bytes
    tracebacks: list[str]
    files: dict[str, bytes]
    warnings: list[str] = field(default_factory=list)
    stderr: str = ""


def start(
    case: Case,
    root: Path,
    launcher: tuple[str, ...],
    fault: str | None,
    preloaded: Preloaded | None = None,
) -> subprocess.Popen | ForkedProcess:
    """Start `case` in `root`, with a copy of the scripts there and nothing else.

    With `preloaded`, `python -m hotloop` is a fork. It writes to two files beside `root`.
    """
    shutil.copytree(SCRIPTS, root / "faithful", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "stdin").write_text(case.stdin)
    foreign = ("HOTLOOP_FAULT", "PYTEST_", "COV_", "PYTHONWARNINGS", "PYTHONHASHSEED")
    env = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    env |= {"OMP_NUM_THREADS": "1", "COLUMNS": "80", "PYTHONDONTWRITEBYTECODE": "1"}
    if fault:
        env["HOTLOOP_FAULT"] = fault
    said = [root.with_suffix(suffix) for suffix in (".out", ".err")]
    with (root / "stdin").open() as stdin, said[0].open("wb") as out, said[1].open("wb") as err:
        streams = (stdin, out, err)
        if preloaded is not None and launcher != PLAIN[0]:
            handles = tuple(stream.fileno() for stream in streams)
            words = (*launcher[3:], *case.command)
            return preloaded.start(*words, cwd=root, env=env, streams=handles)
        named = dict(zip(("stdin", "stdout", "stderr"), streams, strict=True))
        return subprocess.Popen([*launcher, *case.command], cwd=root, env=env, **named)


def outcome(process: subprocess.Popen | ForkedProcess, root: Path) -> Outcome:
    """Wait for the run and gather what it left; hotloop's own folder is left out."""
    try:
        code = process.wait(LIMIT)
    finally:
        process.kill()
    paths = [path for path in root.rglob("*") if path.is_file()]
    inside = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    said = root.with_suffix(".err").read_bytes().replace(bytes(root), b"ROOT").decode()
    return Outcome(
        code=code,
        stdout=root.with_suffix(".out").read_bytes().replace(bytes(root), b"ROOT"),
        tracebacks=tracebacks(said),
        warnings=warnings(said),
        stderr=said,
        files={name: data for name, data in inside.items() if not name.startswith(".hotloop/")},
    )


def tracebacks(stderr: str) -> list[str]:
    """Return the lines of every traceback: its head, its indented lines, the exception's line."""
    found, inside = [], False
    for line in stderr.splitlines():
        inside = inside or line.startswith("Traceback (most recent call last)")
        if inside:
            found.append(line)
            inside = line.startswith(("Traceback", " "))
    return found


def warnings(stderr: str) -> list[str]:
    """Return the lines of every warning of Python's: file, line and text, and the line's source."""
    found, is_next = [], False
    for line in stderr.splitlines():
        is_warning = re.match(r"\S+:\d+: \w*Warning: ", line) is not None
        if is_warning or (is_next and line.startswith("  ")):
            found.append(line)
        is_next = is_warning
    return found


def run_all(
    case: Case,
    root: Path,
    *ways: tuple[tuple[str, ...], str | None],
    preloaded: Preloaded | None = None,
) -> list[Outcome]:
    """Run `case` once in each way (launcher, fault), all at the same time."""
    if case.needs and importlib.util.find_spec(case.needs) is None:
        pytest.skip(f"{case.needs} is not installed")
    root = root.resolve()
    folders = [root / str(index) for index in range(len(ways))]
    running = [
        start(case, folder, *way, preloaded) for folder, way in zip(folders, ways, strict=True)
    ]
    try:
        return [outcome(*pair) for pair in zip(running, folders, strict=True)]
    finally:
        for process in running:
            process.kill()


def assert_same(plain: Outcome, other: Outcome) -> None:
    assert other.code == plain.code
    assert other.stdout.decode() == plain.stdout.decode()
    assert other.tracebacks == plain.tracebacks, other.stderr
    assert other.warnings == plain.warnings
    assert sorted(other.files) == sorted(plain.files)
    assert [name for name in plain.files if other.files[name] != plain.files[name]] == []


PLAIN = ((sys.executable,), None)


WAYS = [
    pytest.param(case, False, id=case.name, marks=[] if suite else [pytest.mark.slow])
    for case in CASES
    for suite in [case.quick and not case.forks]
]
WAYS += [pytest.param(case, True, id=f"{case.name} forked") for case in CASES if case.forks]


@pytest.mark.parametrize(("case", "forks"), WAYS)
def test_hotloop_run_changes_nothing_even_when_its_hooks_raise(
    case: Case, forks: bool, tmp_path: Path, request: pytest.FixtureRequest
):
    ways = [PLAIN, (HOTLOOP, None), (HOTLOOP, "hooks")]
    preloaded = request.getfixturevalue("preloaded") if forks else None
    plain, hosted, faulty = run_all(case, tmp_path, *ways, preloaded=preloaded)
    assert plain.code == case.code
    assert_same(plain, hosted)
    assert_same(plain, faulty)
    assert "planted fault" not in hosted.stderr
    if case.faults:
        assert " ".join(faulty.stderr.split()).count("a fault of hotloop's own: RuntimeError") == 1


def test_a_warning_names_the_line_that_it_names_without_the_doctor(tmp_path: Path):
    plain, observed = run_all(Case(script="stranger"), tmp_path, PLAIN, (MAY_STOP, None))
    assert len(plain.warnings) > 150
    assert_same(plain, observed)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_hotloop_doctor_to_the_end_changes_nothing_even_when_probes_raise(
    case: Case, tmp_path: Path
):
    ways = [PLAIN, (DOCTOR, None), (DOCTOR, "probes")]
    plain, hosted, faulty = run_all(case, tmp_path, *ways)
    assert plain.code == case.code
    assert_same(plain, hosted)
    assert_same(plain, faulty)
    assert "of its own" not in " ".join(hosted.stderr.split())
    if case.faults:
        assert "planted fault in" in " ".join(faulty.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_script_gives_the_same_twice_without_hotloop(case: Case, tmp_path: Path):
    plain, again = run_all(case, tmp_path, PLAIN, PLAIN)
    assert plain.code == case.code
    assert plain.stdout or case.name in {"exit_code hard"}
    assert_same(plain, again)


def test_a_changed_byte_an_extra_file_or_a_foreign_frame_is_seen():
    same = {"code": 0, "stdout": b"a", "tracebacks": [], "files": {"out/w.pt": b"1"}}
    plain = Outcome(**same)
    assert_same(plain, Outcome(**same))
    frame = ["Traceback (most recent call last):", '  File "host.py", line 1', "KeyError: 1"]
    assert tracebacks("note\n" + "\n".join(frame) + "\nhotloop: report") == frame
    warned = ["train.py:3: UserWarning: x", "  f()"]
    assert warnings("\n".join(["note", *warned, "  more", "1. Warning: no"])) == warned
    wrong = [
        {"code": 1},
        {"stdout": b"b"},
        {"tracebacks": frame},
        {"warnings": warned},
        {"files": {"out/w.pt": b"2"}},
        {"files": {"out/w.pt": b"1", "left.txt": b""}},
    ]
    for change in wrong:
        with pytest.raises(AssertionError):
            assert_same(plain, Outcome(**(same | change)))


def test_every_script_is_listed_with_its_source():
    found = {path.relative_to(SCRIPTS).with_suffix("").as_posix() for path in SCRIPTS.rglob("*.py")}
    scripts = found - HELPERS
    assert {case.script for case in CASES} == scripts
    assert len(scripts) == 26
    assert 6 <= sum(case.quick for case in CASES) <= 9
    table = (SCRIPTS / "README.md").read_text()
    rows = dict(re.findall(r"^\| `([\w/]+)\.py` \| (.*) \|$", table, re.MULTILINE))
    assert set(rows) == scripts
    followed = 0
    for script in scripts:
        doc = " ".join(ast.get_docstring(ast.parse((SCRIPTS / f"{script}.py").read_text())).split())
        source = re.search(r"Follows (\S+) (\S+) @ ([0-9a-f]{40}) \(([\w.-]+)\)", doc)
        followed += source is not None
        for part in source.groups() if source else ["ours"]:
            assert part in rows[script], script
    assert followed == 10


@pytest.mark.parametrize("path", sorted(SCRIPTS.rglob("*.py")), ids=lambda path: path.stem)
def test_no_script_reads_a_clock_or_names_a_temporary_file(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", "")}
            assert not names & {"time", "datetime", "tempfile", "timeit", "uuid"}
