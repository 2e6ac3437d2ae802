import re
import subprocess
from pathlib import Path

import pytest
from tests.paths import ROOT
from torch.utils.data import DataLoader

from hotloop.core.errors import UsageError
from hotloop.core.plan import Plan
from hotloop.diagnosis.diff import suggest

EXAMPLES = sorted((ROOT / "examples" / "slow").glob("*/train.py"))
SCRIPT = '''\
"""Trains."""

import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(2, 1)
opt = torch.optim.AdamW(
    model.parameters(),
    lr=1e-3,
)
loader = DataLoader([torch.ones(2)] * 8, batch_size=4, shuffle=True, num_workers=0)
for epoch in range(2):
    for x in loader:
        loss = model(
            x
        ).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
'''


def made(folder: Path, *ids: str, source: str = SCRIPT) -> tuple[list[str], tuple[str, ...]]:
    path = folder / "train.py"
    path.write_text(source)
    plan = Plan(micro_batch=1)
    for id in ids:
        plan = plan.plus(id)
    found = suggest(path, plan)
    changed = [line for line in found.diff.splitlines() if re.match(r"[-+](?![-+])", line)]
    return changed, found.notes


def test_a_keyword_is_added_where_the_optimizer_is_built(tmp_path: Path) -> None:
    changed, said = made(tmp_path, "fused-adamw")
    assert changed == ["-    lr=1e-3,", "+    lr=1e-3, fused=True"]
    assert said == ()


def test_a_keyword_that_is_there_is_replaced(tmp_path: Path) -> None:
    changed, said = made(tmp_path, "loader-workers")
    assert "num_workers=2, persistent_workers=True)" in changed[1]
    assert "another order" in said[0]


def test_the_call_of_the_model_goes_under_autocast_with_all_its_lines(tmp_path: Path) -> None:
    changed, _ = made(tmp_path, "autocast-bf16")
    assert [line for line in changed if line.startswith("+")] == [
        "+        with torch.autocast(next(model.parameters()).device.type, torch.bfloat16):",
        "+            loss = model(",
        "+                x",
        "+            ).mean()",
    ]


def test_switches_follow_the_imports_and_compile_stands_before_the_loop(tmp_path: Path) -> None:
    changed, _ = made(tmp_path, "tf32", "compile")
    assert '+torch.set_float32_matmul_precision("high")' in changed
    assert any(line.startswith("+model.compile()") for line in changed)


def test_what_has_no_safe_place_is_said_in_words(tmp_path: Path) -> None:
    changed, said = made(tmp_path, "sdpa", "sample-cache", "fused-adamw", source="x = 1\n")
    assert changed == []
    assert len(said) == 3


def test_an_edited_script_runs(tmp_path: Path) -> None:
    made(tmp_path, "fused-adamw")
    plan = Plan(micro_batch=1).plus("fused-adamw").plus("gc-freeze").plus("autocast-bf16")
    diff = suggest(tmp_path / "train.py", plan).diff
    name = (tmp_path / "train.py").as_posix().lstrip("/")
    assert diff.startswith(f"--- a/{name}\n+++ b/{name}\n")
    patch = ["patch", "--quiet", str(tmp_path / "train.py")]
    done = subprocess.run(patch, input=diff, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout
    compile((tmp_path / "train.py").read_text(), "train.py", "exec")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_every_example_can_be_edited(path: Path) -> None:
    plan = Plan(micro_batch=1)
    for id in ("autocast-bf16", "compile", "fused-adamw", "loader-workers", "tf32", "gc-freeze"):
        plan = plan.plus(id)
    found = suggest(path, plan)
    assert found.diff or found.notes


TOP = "import gc\nimport torch\nfrom torch.utils.data import DataLoader\n"


@pytest.mark.parametrize(
    ("id", "before", "after"),
    [
        ("loader-workers", "DataLoader(d, num_workers=2, persistent_workers=True)", None),
        (
            "loader-workers",
            "DataLoader(d, num_workers=8, persistent_workers=False)",
            "DataLoader(d, num_workers=2, persistent_workers=True)",
        ),
        ("loader-workers", "DataLoader(d, num_workers=args.workers)", None),
        ("loader-workers", "DataLoader(d, **more)", None),
        ("loader-workers", "DataLoader(d, 4, True, None, None, 8)", None),
        ("fused-adamw", "torch.optim.Adam(p, **more)", None),
        ("fused-adamw", "torch.optim.Adam(p, foreach=True)", None),
        ("fused-adamw", "bnb.optim.AdamW(p)", None),
        (
            "fused-adamw",
            "torch.optim.AdamW(p for p in m.parameters() if p.requires_grad)",
            "torch.optim.AdamW((p for p in m.parameters() if p.requires_grad), fused=True)",
        ),
        (
            "loader-workers",
            "DataLoader(d, num_workers=0,  # for now, (é)\n)",
            "DataLoader(d, num_workers=2, persistent_workers=True  # for now, (é)\n)",
        ),
        (
            "fused-adamw",
            "torch.optim.SGD(p, lr=1)  # rate",
            "torch.optim.SGD(p, lr=1, fused=True)  # rate",
        ),
        (
            "fused-adamw",
            "from torch import optim as o; o.SGD(p, fused=False)",
            "from torch import optim as o; o.SGD(p, fused=True)",
        ),
    ],
)
def test_a_call_is_edited_where_it_may_be_and_left_alone_elsewhere(
    id: str, before: str, after: str | None, tmp_path: Path
) -> None:
    changed, said = made(tmp_path, id, source=TOP + before + "\n")
    added = [line[1:] for line in changed if line[0] == "+"]
    if after is None:
        assert changed == []
        assert len(said) == 1
    else:
        assert [line for line in after.splitlines() if line not in before.splitlines()] == added


@pytest.mark.parametrize(
    ("choice", "before", "after"),
    [
        (
            {"count": 0},
            "DataLoader(d, num_workers=4, persistent_workers=True, prefetch_factor=8)",
            "DataLoader(d, num_workers=0, persistent_workers=False, prefetch_factor=None)",
        ),
        ({"count": 0}, "DataLoader(d)", None),
        (
            {"count": 1, "ahead": 4, "pin": "on"},
            "DataLoader(d)",
            "DataLoader(d, num_workers=1, pin_memory=True, persistent_workers=True, "
            "prefetch_factor=4)",
        ),
        (
            {"count": 0, "pin": "on"},
            "DataLoader(d)",
            "DataLoader(d, num_workers=0, pin_memory=True)",
        ),
    ],
)
def test_a_loader_is_given_all_that_its_number_of_workers_asks_for(
    choice: dict[str, int], before: str, after: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(TOP + before + "\n")
    diff = suggest(path, Plan(micro_batch=1).plus("loader-workers", **choice)).diff
    added = re.findall(r"^[+](?![+])(.*)", diff, flags=re.MULTILINE)
    assert added == ([after] if after else [])
    eval(after or before, {"DataLoader": DataLoader, "d": [1]})  # takes these together


def test_the_collector_is_frozen_in_a_function_that_uses_gc_above(tmp_path: Path) -> None:
    loop = "    for x in y:\n        loss.backward()\n"
    source = f"import gc\nimport torch\ndef train(y, loss):\n    gc.collect()\n{loop}"
    changed, _ = made(tmp_path, "gc-freeze", source=source)
    assert changed == ["+    gc.collect()", "+    gc.freeze()"]
    changed, _ = made(tmp_path, "gc-freeze", source=source.replace("import gc\n", ""))
    assert changed[0] == "+import gc"
    inside = source.replace("    gc.collect()", "    import gc")
    assert made(tmp_path, "gc-freeze", source=inside)[0] == [], "the name is the function's own"


def test_threads_without_a_count_are_said_in_words(tmp_path: Path) -> None:
    changed, said = made(tmp_path, "threads")
    assert changed == []
    assert "number of cores" in said[0]
    assert "(1)" not in said[0]


@pytest.mark.parametrize(
    "source",
    [
        SCRIPT.replace("import torch\n", "import torch as th\n"),
        SCRIPT.replace("        loss = model(\n", "        y = 0; loss = model(\n"),
        SCRIPT.replace("            x\n", '            x, """a\n  b"""\n'),
    ],
)
def test_autocast_is_said_in_words_where_its_lines_would_be_wrong(
    source: str, tmp_path: Path
) -> None:
    changed, said = made(tmp_path, "autocast-bf16", source=source)
    assert changed == []
    assert "within torch.autocast" in said[0]


ACCELERATED = """\
import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = torch.nn.Linear(2, 1)
opt = torch.optim.AdamW(model.parameters())
for epoch in range(2):
    for x in train:
        with accelerator.accumulate(model):
            loss = model(x).mean()
            accelerator.backward(loss)
            opt.step()
    model.eval()
    for x in held:
        scores = model(x)
"""


def test_it_is_the_call_that_trains_which_goes_under_autocast_and_no_validation(
    tmp_path: Path,
) -> None:
    changed, _ = made(tmp_path, "autocast-bf16", source=ACCELERATED)
    device = "next(model.parameters()).device.type"
    assert changed == [
        "-            loss = model(x).mean()",
        f"+            with torch.autocast({device}, torch.bfloat16):",
        "+                loss = model(x).mean()",
    ]


@pytest.mark.parametrize(
    "source",
    [
        SCRIPT + SCRIPT.partition("num_workers=0)\n")[2],  # two loops train
        SCRIPT.replace("        opt.zero_grad()\n", "        extra = model(x)\n"),
        SCRIPT.replace(
            "        loss = model(\n            x\n        ).mean()\n",
            "        loss = made(x)\n        with torch.no_grad(): seen = model(x)\n",
        ),
    ],
    ids=["two loops", "two calls", "without gradients"],
)
def test_autocast_is_said_in_words_where_not_one_call_of_the_model_trains(
    source: str, tmp_path: Path
) -> None:
    changed, said = made(tmp_path, "autocast-bf16", source=source)
    assert changed == []
    assert "within torch.autocast" in said[0]


def test_a_model_that_the_loops_function_does_not_know_is_said_in_words(tmp_path: Path) -> None:
    source = (
        "import torch\ndef build():\n    net = torch.nn.Linear(1, 1)\n"
        "    return net, torch.optim.SGD(net.parameters())\n"
        "def train(model, data):\n    for x in data:\n        model(x).backward()\n"
    )
    changed, said = made(tmp_path, "compile", source=source)
    assert changed == []
    assert said == ("compile: put net.compile() before the training loop",)


def test_tabs_and_form_feeds_and_an_unended_last_line_survive(tmp_path: Path) -> None:
    source = (
        "import torch\nm = torch.nn.Linear(1, 1)\n\x0c\nif m:\n\tfor x in [1]:\n"
        "\t\tm(\n\t\t\tx).backward()\no = torch.optim.SGD(m.parameters())"
    )
    path = tmp_path / "train.py"
    path.write_text(source)
    plan = Plan(micro_batch=1).plus("fused-adamw").plus("autocast-bf16").plus("compile")
    patch = ["patch", "--quiet", str(path)]
    diff = suggest(path, plan).diff
    done = subprocess.run(patch, input=diff, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout
    after = path.read_text()
    compile(after, "train.py", "exec")
    assert after.endswith("SGD(m.parameters(), fused=True)")
    assert "\tm.compile()" in after


def test_what_is_no_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read as Python"):
        made(tmp_path, "tf32", source="def (")
