import pytest

from hotloop.observe.hooks.stack_sampler import Stand
from hotloop.observe.wall.attribution import split
from hotloop.observe.wall.wall_time import Folded

MS = 1_000_000


def code(source: str, file: str, name: str = "f"):
    space: dict = {}
    exec(compile(f"def {name}():\n    {source}\n", file, "exec"), space)
    return space[name].__code__


def stand(at: int, *stack, cpu: int | None = None) -> Stand:
    return Stand(at * MS, tuple((each, 2) for each in stack), at * MS if cpu is None else cpu)


def folded(**rows: int) -> Folded:
    """Rows of so many milliseconds, one after the other; "_" stands for the colon."""
    found, at = Folded(), 0
    for row, ms in rows.items():
        name = row.replace("__", ":").replace("_", " ")
        found.rows[name] += ms / 1e3
        found.pieces.append((at * MS, (at + ms) * MS, name))
        at += ms
    return found


OWN = code("pass", "/project/train.py", "train")
LIBRARY = code("pass", "/env/site-packages/torch/nn/linear.py")
IMPORT = code("pass", "<frozen importlib._bootstrap>")
DYNAMO = code("pass", "/env/site-packages/torch/_dynamo/convert_frame.py")
LOGGER = code("pass", "/env/site-packages/wandb/sdk/run.py")
BATCH = code("pass", "/project/data.py", "get_batch")


def test_a_row_without_samples_keeps_its_name():
    rows, _, stacks = split(folded(after_step__=40, forward=60), [], since=0)
    assert rows == pytest.approx({"after step": 0.04, "forward": 0.06})
    assert stacks == ()


def test_an_open_gap_is_shared_out_by_its_samples():
    stands = [stand(5, OWN), stand(15, LOGGER, OWN), stand(25, LOGGER, OWN), stand(35, BATCH, OWN)]
    rows, _, _ = split(folded(after_step__=40), stands, since=0)
    assert rows == pytest.approx({"after step": 0.01, "log": 0.02, "data wait": 0.01})


def test_the_start_is_importing_or_reading_or_the_scripts_own():
    reader = code("pass", "/env/site-packages/pandas/io.py")
    stands = [stand(5, DYNAMO, IMPORT, OWN), stand(15, reader, OWN), stand(25, OWN)]
    rows, _, _ = split(folded(start__=30), stands, since=0)
    assert rows == pytest.approx({"import": 0.01, "data load": 0.01, "start": 0.01})


def test_compiling_is_told_by_the_compilers_frames():
    rows, _, _ = split(folded(after_step__=10), [stand(5, DYNAMO, OWN)], since=0)
    assert rows == pytest.approx({"compile": 0.01})


def test_a_thread_that_neither_moved_nor_computed_was_idle():
    stack = ((OWN, 2),)
    stands = [Stand(at * MS, stack, cpu) for at, cpu in ((5, MS), (15, MS + 1), (25, MS + 2))]
    rows, _, _ = split(folded(after_step__=30), stands, since=0)
    assert rows == pytest.approx({"after step": 0.01, "idle": 0.02})


def test_stacks_carry_the_seconds_of_their_row():
    stands = [stand(5, LIBRARY, OWN), stand(15, LIBRARY, OWN), stand(25, OWN), stand(95, OWN)]
    _, _, stacks = split(folded(forward=30, backward=30), stands, since=0)
    assert [(s.row, s.samples) for s in stacks] == [("forward", 2), ("forward", 1)]
    assert [s.seconds for s in stacks] == pytest.approx([0.02, 0.01])
    assert stacks[0].place.file == "/project/train.py"


def test_steps_are_shared_out_as_the_whole_is():
    found = folded(after_step__=40)
    found.steps = [{"after step:": 0.02}, {"after step:": 0.02}]
    _, steps, _ = split(found, [stand(5, OWN), stand(15, LOGGER, OWN)], since=0)
    assert steps == [pytest.approx({"after step": 0.01, "log": 0.01})] * 2
