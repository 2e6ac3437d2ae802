"""`hotloop rehearse` runs a script or a recipe on a simulated card: what does it do there."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.nullcard

TRAIN = """
import torch
net = torch.nn.Linear(64, 64, device="cuda", dtype={dtype})
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
x = torch.ones(32, 64, device="cuda", dtype={dtype})
while True:
    loss = net(x).square().mean()
    {work}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def rehearse(interpreter, tmp_path):
    """Rehearse a script; return its result and what was printed."""

    def rehearsed(script: str, *options: str) -> tuple[dict, str]:
        (tmp_path / "train.py").write_text(script)
        words = [interpreter, "-m", "hotloop", "rehearse", *options, "--json", "out.json"]
        ended = subprocess.run(
            [*words, "train.py"], cwd=tmp_path, env={**os.environ}, capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads((tmp_path / "out.json").read_text()), ended.stdout

    return rehearsed


@pytest.fixture
def rehearse_recipe(interpreter, tmp_path):
    """Rehearse char-lm on a T4 with small figures; return the result and what was printed."""
    (tmp_path / "text.txt").write_text("to be, or not to be: that is the question\n" * 400)

    def rehearsed(*words: str) -> tuple[dict, str]:
        small = ["model.layers=2", "model.heads=2", "model.width=64", "model.context=32"]
        command = [interpreter, "-m", "hotloop", "rehearse", "--card", "t4", "--json", "out.json"]
        options = [word for word in words if word.startswith("--largest")]
        rest = [word for word in words if word not in options]
        ended = subprocess.run(
            [*command, *options, "char-lm", "data.path=text.txt", *small, *rest],
            cwd=tmp_path,
            env={**os.environ},
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads((tmp_path / "out.json").read_text()), ended.stdout

    return rehearsed


def written(work: str = "pass", dtype: str = "torch.float32") -> str:
    return TRAIN.format(work=work, dtype=dtype)


def line_of(work: str) -> int:
    return next(n for n, line in enumerate(written(work).splitlines(), 1) if line.strip() == work)


def test_a_step_is_counted_with_the_lines_that_wait(rehearse):
    result, said = rehearse(written("total = loss.item() + len(x[x > 0])"), "--card", "rtx3090")
    assert result["card"] == "NVIDIA GeForce RTX 3090"
    assert result["verdicts"][0] == {
        "question": "starts",
        "answer": "yes",
        "text": "it made 8 optimizer steps on the RTX 3090",
        "remedy": None,
    }
    run = result["run"]
    assert len(run["steps"]) == 5
    assert [step["waits"] for step in run["steps"]] == [{"cudaStreamSynchronize": 2}] * 5
    assert len({step["launches"] for step in run["steps"]}) == 1
    # The lines share out exactly what a step does.
    assert sum(line["launches"] for line in run["lines"]) == run["steps"][0]["launches"]
    first = run["lines"][0]
    assert (first["waits"], first["place"]["line"]) == (
        2,
        line_of("total = loss.item() + len(x[x > 0])"),
    )
    assert [line["waits"] for line in run["lines"][1:]] == [0] * (len(run["lines"]) - 1)
    assert "no loss and no value means anything" in said
    assert re.search(r"train\.py:8 +total = loss\.item\(\)", said)


def test_no_wait_and_no_file_of_the_script(rehearse, tmp_path):
    """The weights are zeros: a script must not write them over its checkpoint."""
    (tmp_path / "net.pt").write_text("mine")
    result, said = rehearse(written('torch.save(net.state_dict(), "net.pt")'), "--steps", "2")
    assert result["verdicts"][0]["answer"] == "yes"
    assert len(result["run"]["steps"]) == 2
    assert (tmp_path / "net.pt").read_text() == "mine"
    assert "files that the script writes: none was changed" in said


def test_a_script_that_does_not_fit(rehearse):
    gib = "big = None; big = torch.empty({} << 30, dtype=torch.uint8, device='cuda')"
    result, _ = rehearse(written(gib.format(20)), "--card", "rtx4090")
    memory = next(one for one in result["verdicts"] if one["question"] == "memory")
    assert memory["answer"] == "yes"
    assert 1 <= result["run"]["peak_reserved"] / (20 << 30) < 1.05

    result, said = rehearse(written(gib.format(20)), "--card", "t4")
    assert [one["answer"] for one in result["verdicts"]][:2] == ["no", "no"]
    assert "the 14.7 GiB of the Tesla T4 do not suffice" in result["verdicts"][0]["text"]
    assert result["run"]["raised"]["place"]["line"] == line_of(gib.format(20))
    assert "OutOfMemoryError" in said


def test_what_a_t4_lacks(rehearse):
    result, _ = rehearse(written(dtype="torch.bfloat16"), "--card", "t4")
    bf16 = next(one for one in result["verdicts"] if one["question"] == "bf16")
    assert (bf16["answer"], bf16["remedy"]) == ("no", "use float16 with torch.amp.GradScaler")

    flash = (
        "q = torch.ones(1, 64, 2, 64, device='cuda', dtype=torch.float16); "
        "torch.ops.aten._flash_attention_forward(q, q, q, None, None, 64, 64, 0.0, True, False)"
    )
    result, _ = rehearse(written(flash), "--card", "t4")
    starts = result["verdicts"][0]
    assert (starts["answer"], starts["text"]) == (
        "no",
        "the Tesla T4 lacks what the script asks for",
    )
    assert "FlashAttention only supports Ampere" in result["run"]["raised"]["text"]
    result, _ = rehearse(written(flash), "--card", "rtx3090")
    assert result["verdicts"][0]["answer"] == "yes"
    assert "flash attention" in result["run"]["kernels"]


def test_a_script_that_fails_by_itself_is_no_fault_of_the_card(rehearse):
    result, said = rehearse(written("assert loss.item() > 0, 'no loss'"))
    starts = result["verdicts"][0]
    assert starts["answer"] == "unknown"
    assert "all values are 0 here" in starts["text"]
    assert "AssertionError: no loss" in said
    assert "train.py:8" in said


def test_a_script_that_takes_the_cpu(rehearse):
    result, _ = rehearse(written().replace('"cuda"', '"cpu"'))
    starts = result["verdicts"][0]
    assert starts["answer"] == "unknown"
    assert "gave the card nothing to do" in starts["text"]


def test_a_script_that_never_makes_a_step_is_ended(rehearse):
    script = "import time, torch\nx = torch.ones(1, device='cuda') + 1\nwhile True: time.sleep(1)"
    result, _ = rehearse(script, "--time", "8")
    starts = result["verdicts"][0]
    assert (starts["answer"], result["run"]["ended"]) == ("unknown", "8 s were over")


def test_a_library_without_room_for_its_cache_is_told(interpreter, tmp_path):
    (tmp_path / "train.py").write_text(written())
    (tmp_path / "file").write_text("")
    ended = subprocess.run(
        [interpreter, "-m", "hotloop", "rehearse", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "HOTLOOP_CACHE": str(Path(tmp_path, "file"))},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 73
    assert "set HOTLOOP_CACHE to a folder that can be written" in ended.stderr


LOADED = """
import torch
rows = torch.utils.data.DataLoader(torch.zeros(100_000, 1), batch_size=64)
net = torch.nn.Linear(1024, 1024, device="cuda")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
while True:
    for batch in rows:
        x = batch.to("cuda").expand(-1, 1024)[:, None].expand(-1, 256, -1).contiguous()  # 1 MiB
        loss = net(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del x, loss
"""


def test_the_largest_batch_is_one_that_was_run(rehearse, tmp_path):
    words = ("--card", "t4", "--largest-batch", "--steps", "2", "--out", "shown")
    result, said = rehearse(LOADED, *words)
    found = result["largest"]
    trials = {one["batch"]: one for one in found["trials"]}
    assert list(trials)[:2] == [64, 128]
    assert trials[found["fits"]]["fits"] is True
    assert trials[found["fails"]]["fits"] is False
    assert found["fails"] - found["fits"] <= 0.05 * found["fits"]
    # A row takes 1 MiB, and its output another one.
    assert 0.4 < found["fits"] / (0.9 * 15095) < 0.5
    assert f"{found['fits']:,}" in said
    estimate = result["estimate"]
    assert 0 < estimate["card_seconds"] < 1
    assert estimate["card_from"] >= 1
    assert "not measured" in said
    assert json.loads((tmp_path / "shown" / "rehearsal.json").read_text()) == result
    assert "Largest batch" in (tmp_path / "shown" / "report.html").read_text()


def test_the_work_of_a_step_is_counted(rehearse):
    result, _ = rehearse(written("x = x + 1"))
    products = [one for one in result["run"]["work"] if one["precision"]]
    assert {one["precision"] for one in products} == {"fp32"}
    flops = 2 * 32 * 64 * 64  # x needs no gradient: the output, and the gradient of the weight
    assert [one["flops"] for one in products for _ in range(one["calls"])] == [flops, flops]
    moved = {one["bytes"] for one in result["run"]["work"] if not one["precision"]}
    assert 2 * 32 * 64 * 4 in moved  # x + 1 reads it and writes another


def test_a_script_that_updates_its_weights_by_itself(rehearse):
    script = """
import torch
w = torch.ones(8, device="cuda", requires_grad=True)
while True:
    (w * w).sum().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
"""
    result, _ = rehearse(script)
    assert result["verdicts"][0]["text"] == "it made 8 backward passes on the RTX 4090"
    assert len({step["launches"] for step in result["run"]["steps"]}) == 1
    assert result["run"]["steps"][0]["launches"] > 3


def test_many_micro_batches_make_one_step(rehearse):
    work = "[net(x).square().mean().backward() for _ in range(40)]"
    result, _ = rehearse(written(work), "--steps", "1")
    assert result["verdicts"][0]["text"] == "it made 4 optimizer steps on the RTX 4090"


def test_the_rules_on_the_gpu_judge_by_the_cards_estimated_times(rehearse):
    """A product of 9 TFLOP is in the queue when the rows of a mask are counted.

    The host waits in each step, but the card is busy meanwhile: the wait costs next to nothing.
    The products are long enough for a slow host, too, whose own work in a step takes some ms.
    """
    work = "y = torch.ones(16384, 16384, device='cuda'); y @ y; n = len(x[x > 0])"
    result, said = rehearse(written(work), "--card", "rtx4090")
    found = {one["rule"].split()[0]: one for one in result["judged"]["findings"]}
    assert (found["H3"]["severity"], found["H3"]["places"][0]["line"]) == (
        "note",
        line_of(work),
    )
    assert "H3 hidden_sync" in said
    clean, _ = rehearse(written("y = torch.ones(8192, 8192, device='cuda'); y @ y"))
    loud = [one for one in clean["judged"]["findings"] if one["severity"] != "note"]
    assert loud == []


def test_a_recipe_is_trained_as_it_would_be_on_that_card(rehearse_recipe, tmp_path):
    """Also where its own schedule would end sooner; no run folder is left."""
    result, said = rehearse_recipe("training.max_steps=2", "training.batch_size=8")
    assert result["verdicts"][0]["text"] == "it made 8 optimizer steps on the Tesla T4"
    run = result["run"]
    assert (run["plan"]["micro_batch"], run["plan"]["accumulation"]) == (8, 1)
    how = {one["technique"]: one["word"] for one in run["plan"]["effects"]}
    assert how["autocast-fp16"] == "in effect"  # a T4 has no bf16
    assert [step["waits"] for step in run["steps"]] == [{}] * 5
    assert len({step["launches"] for step in run["steps"]}) == 1
    assert "Tesla T4 (cuda)" in run["plan"]["facts"]["device"]
    assert result["command"][:4] == ["-m", "hotloop", "train", "char-lm"]
    assert re.search(r"autocast-fp16 +in effect", said)
    assert "check a recipe with hotloop doctor char-lm" in " ".join(said.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "text.txt"]


def test_what_a_recipe_is_refused_for_is_said(rehearse_recipe):
    result, said = rehearse_recipe("training.precision=bf16")
    assert result["verdicts"][0]["answer"] == "no"
    assert "hotloop train refuses it after 0 optimizer steps" in result["verdicts"][0]["text"]
    assert result["run"]["raised"]["text"] in said.replace("\n", " ")


def test_the_largest_micro_batch_of_a_recipe(rehearse_recipe):
    """Each row takes far less than the card has, so that the data end the search."""
    result, said = rehearse_recipe("--largest-batch", "training.batch_size=64")
    found = result["largest"]
    assert found["trials"][0]["batch"] == 64
    assert all(one["fits"] for one in found["trials"])
    assert found["fits"] == result["run"]["plan"]["samples"]
    assert f"the data set has only {found['fits']:,} rows" in said
