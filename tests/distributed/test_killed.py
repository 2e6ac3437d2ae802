"""A rank that dies ends the group at once; what goes on makes the same samples and same bits."""

import random
import time
from collections import Counter

import psutil
import pytest
import torch
from tests.several import ended, forked, started, together

from hotloop.core.events import steps
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.checkpoint.folders import listing
from hotloop.engine.checkpoint.tensors import read_all
from hotloop.jobs import train
from hotloop.jobs.request import fresh_request

STEPS = 40
MODULE = "tests.ranks_killed"


@pytest.fixture(scope="module")
def settings(tiny):
    own = {"training.log_every": "1", "training.eval_every_steps": "20"}
    kept = [text for text in tiny if text.partition("=")[0] not in own]
    # Whether products pay through oneDNN is measured, and a near thing here: runs are compared.
    measured = ("--without", "matmul-onednn")
    return [*kept, *(f"{key}={value}" for key, value in own.items()), *measured]


@pytest.fixture(scope="module")
def straight(settings, preloaded_models, tmp_path_factory):
    """Return a run of two ranks that nothing happened to, by how they share."""
    made = {}

    def run(shares):
        if shares not in made:
            made[shares] = tmp_path_factory.mktemp(shares) / "run"
            words = (*settings, "--with", shares, "--out", made[shares])
            forked(preloaded_models, "train", "char-lm", *words)
        return made[shares]

    return run


def taken(folder, rank):
    """Return (step, digest of the samples, loss) of each step that counts."""
    made = steps(RunDir(folder).events(rank))
    return [(step.step, step.ids, step.loss) for step in made]


def same_run(folder, other):
    for rank in range(2):
        assert taken(folder, rank) == taken(other, rank)
        assert Counter(step for step, _, _ in taken(folder, rank)) == Counter(range(1, STEPS + 1))
    mine, theirs = (listing(each / "checkpoints")[-1].path for each in (folder, other))
    assert mine.name == theirs.name == f"step-{STEPS:08d}"
    for kind in ("model", "optimizer", "rng-r0", "rng-r1"):
        a, b = read_all(mine, kind), read_all(theirs, kind)
        assert a.keys() == b.keys()
        assert all(torch.equal(a[name], b[name]) for name in a), kind


def left(out):
    """Return processes of a run that are still there."""
    every = psutil.process_iter(["cmdline"])
    return [process for process in every if str(out) in (process.info["cmdline"] or ())]


# In the suite torchrun starts the group again; `make campaign` kills here, too, and at random.
PLACES = [
    ("fsdp2", "1:exchange:60"),
    ("ddp", "1:forward:23"),
    ("ddp", "0:save:9"),
    ("ddp", "0:exchange:17"),
    ("ddp", "1:agree:12"),
    ("ddp", "1:save:8"),
    ("fsdp2", "0:commit:2"),
]
MOST = {"forward": 38, "exchange": 38, "agree": 40, "save": 20, "commit": 6}


def at_random(count, seed=9):
    """Return kills of either rank at random calls of every place."""
    draw = random.Random(seed)
    return [
        (shares, f"{draw.randrange(2) if place != 'commit' else 0}:{place}:{draw.randint(1, most)}")
        for _ in range(count)
        for shares in ("ddp", "fsdp2")
        for place, most in MOST.items()
    ]


SLOW = [pytest.param(*each, marks=pytest.mark.slow) for each in (*PLACES, *at_random(2))]


@pytest.mark.parametrize(("shares", "fault"), SLOW)
def test_a_killed_rank_ends_the_group_and_a_resume_makes_the_same_bits(
    shares, fault, settings, straight, tmp_path
):
    other = straight(shares)
    out = tmp_path / "run"
    process = started(
        "train",
        "char-lm",
        *settings,
        "--with",
        shares,
        "--out",
        out,
        module=MODULE,
        HOTLOOP_FAULT=fault,
    )
    code, _, said = ended(process, within=90)
    over = time.time()
    assert code != 0
    assert "this is a bug of ours" not in said, said
    logs = [log for rank in range(2) if (log := RunDir(out).events_file(rank)).exists()]
    assert over - max(log.stat().st_mtime for log in logs) < 30
    assert not left(out)
    together("train", "--resume", out)
    same_run(out, other)


@pytest.mark.parametrize(
    ("shares", "fault"),
    [
        ("fsdp2", "1:exchange:61"),
        pytest.param("ddp", "1:forward:30", marks=pytest.mark.slow),
    ],
)
def test_torchrun_starts_the_group_again_by_itself(shares, fault, settings, straight, tmp_path):
    out = tmp_path / "run"
    keys = ("--with", shares, "--out", out)
    together(
        *("train", "char-lm", *settings, *keys),
        torchrun=["--max-restarts=2"],
        module=MODULE,
        HOTLOOP_FAULT=fault,
    )
    same_run(out, straight(shares))


@pytest.mark.slow
def test_two_then_one_then_two_ranks_take_the_same_samples(settings, straight, tmp_path):
    out, one, two = tmp_path / "run", tmp_path / "one", straight("ddp")
    plain = [text for text in settings if "=" in text]
    train.train(fresh_request("char-lm", plain), out=one)
    new, on = ("train", "char-lm", *settings, "--out", out), ("train", "--resume", out)
    together(*new, module=MODULE, HOTLOOP_FAULT="1:stop:14", code=143)
    first = listing(out / "checkpoints")[-1].step
    together(*on, module=MODULE, HOTLOOP_FAULT="0:stop:11", ranks=1, code=143)
    second = listing(out / "checkpoints")[-1].step
    together(*on)
    assert 0 < first < second < STEPS
    for step in range(1, STEPS + 1):
        other = one if first < step <= second else two
        for rank in (0, 1) if other is two else (0,):
            mine, theirs = (dict_of(each, rank)[step] for each in (out, other))
            assert mine == theirs, (step, rank)
    assert list(dict_of(out, 0)) == list(range(1, STEPS + 1)), "each step once"


def dict_of(folder, rank):
    return {step: ids for step, ids, _ in taken(folder, rank)}


@pytest.mark.slow
def test_a_group_that_is_out_of_time_is_no_failure(settings, tmp_path):
    """torchrun would start it again."""
    out = tmp_path / "run"
    keys = [text for text in settings if not text.startswith("training.max_steps")]
    limit = ("training.max_steps=1000000", "training.max_time=12s")
    together("train", "char-lm", *keys, *limit, "--out", out, torchrun=["--max-restarts=2"])
    run = RunDir(out)
    assert run.read()["reason"] == "time limit"
    assert len([e for e in run.events() if e["kind"] == "session"]) == 1
