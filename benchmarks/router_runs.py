"""Whole runs of task-router on real data, each command as a user types it.

python -m benchmarks.router_runs DATA [NAME ...] [--keep FOLDER] [--steps N]

DATA holds the folders sentence_polarity, xquad, scitldr, mbpp and tico19. NAME is encoder
(sentiment and questions, on all-MiniLM-L6-v2), decoder (all five as text to text, on a Qwen3 of
4 x 256 with random weights) or killed. The first two are all three phases in one command; then
held-out rows are routed and answered beside the baselines, and the doctor looks at each phase. The
last is some steps of each phase on all-MiniLM-L6-v2, twice: once killed with SIGKILL in each phase
and begun again with the same command. Results go to benchmarks/results/router-runs.json.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Load
from benchmarks.table import RESULTS
from benchmarks.text_runs import Desk, asked, furnish, small_decoder, weights
from hotloop.core.storage.files import write_json
from hotloop.machine.detect import detect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FILES = (
    "sentence_polarity/all.jsonl",
    "xquad/xquad.en.json",
    "scitldr/train.jsonl",
    "mbpp/mbpp.jsonl",
    "tico19/en-fr.jsonl",
)
PHASES = ("phase-1", "phase-2", "phase-3")
MOST_SECONDS, LEAST_ROUTED, LEAST_SENTIMENT = 900, 0.95, 0.75


def _encoder(desk: Desk) -> dict[str, Any]:
    return _run(
        desk, "encoder", "model.name=minilm", "data.tasks=sentiment,questions", "data.path=data"
    )


def _decoder(desk: Desk) -> dict[str, Any]:
    return _run(
        desk,
        "decoder",
        "model.name=decoder",
        "data.path=data",
        "data.max_length=384",
        "data.sst2_size=1500",
        "data.summaries_size=700",
        "data.translation_size=1500",
        "adapter.rank=16",
        "training.learning_rate=0.003",
        "joint_training.learning_rate=0.001",
    )


def _run(desk: Desk, name: str, *settings: str) -> dict[str, Any]:
    done = desk.hotloop("train", "task-router", *settings, "--out", name)
    last = f"{name}/phase-3"
    desk.hotloop("predict", last, "--baselines", "--json", f"{name}.json", "--out", f"{name}.jsonl")
    desk.hotloop("report", last)
    runs = {phase: desk.judged(f"{name}/{phase}", done) for phase in PHASES}
    return {"seconds": round(done.seconds, 1), "answers": desk.read(f"{name}.json"), **runs}


def _killed(desk: Desk) -> dict[str, Any]:
    """Return whether a run that was killed in each phase ends as one that was not."""
    typed = [
        "train",
        "task-router",
        "model.name=minilm",
        "data.path=data",
        "data.tasks=sentiment,questions",
        "data.sst2_size=600",
        "data.squad_size=200",
    ]
    for part, steps, saves in (("training", 40, 10), ("router_training", 800, 100)):
        typed += [f"{part}.epochs=null", f"{part}.max_steps={steps}"]
        typed += [f"{part}.save_every_steps={saves}"]
    typed += ["joint_training.epochs=null", "joint_training.max_steps=30"]
    typed += ["joint_training.save_every_steps=10"]
    desk.hotloop(*typed, "--out", "whole")
    struck = []
    for phase in PHASES:
        child, saved = desk.start(*typed, "--out", "killed"), desk.folder / "killed" / phase
        while not any((saved / "checkpoints").glob("step-*")):
            time.sleep(0.02)
            if child.poll() is not None:
                raise RuntimeError(f"it ended with {child.returncode} before {phase}")
        time.sleep(0.3)  # some steps more, which are lost
        child.send_signal(signal.SIGKILL)
        struck.append({"phase": phase, "exit_code": child.wait()})
    desk.hotloop(*typed, "--out", "killed")
    same = {
        phase: weights(desk.folder / "whole" / phase) == weights(desk.folder / "killed" / phase)
        for phase in PHASES
    }
    return {"struck": struck, "same_to_the_bit": same}


RUNS: dict[str, Callable[[Desk], dict[str, Any]]] = {
    "encoder": _encoder,
    "decoder": _decoder,
    "killed": _killed,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; 1 where a bound of the issue is missed."""
    options, folder = asked(argv, __doc__ or "", RUNS)
    furnish(folder, options.data)
    small_decoder(folder / "decoder", [options.data / file for file in FILES])
    page = RESULTS / "router-runs.json"
    found = json.loads(page.read_text())["runs"] if page.is_file() else {}
    missed = []
    for name in options.names or RUNS:
        desk, load = Desk(folder, options.data.resolve(), options.steps), Load()
        found[name] = {**RUNS[name](desk), "commands": desk.typed, "others": load.others()}
        print(json.dumps(found[name], indent=1), flush=True)
        missed += _missed(name, found[name])
        if options.steps is None:
            write_json(page, {"hardware": detect().to_json(), "runs": found})
    print(f"the runs are in {folder}")
    print("\n".join(missed) or "all bounds are kept")
    return int(bool(missed))


def _missed(name: str, found: dict[str, Any]) -> list[str]:
    if name == "killed":
        same, struck = found["same_to_the_bit"], found["struck"]
        whole = all(same.values()) and all(each["exit_code"] == -9 for each in struck)
        return [] if whole else [f"{name}: {same}, {struck}"]
    answers = found["answers"]
    values = [
        ("seconds", found["seconds"], found["seconds"] <= MOST_SECONDS),
        ("routed", answers["routing"]["accuracy"], answers["routing"]["accuracy"] >= LEAST_ROUTED),
    ]
    if name == "encoder":
        right = answers["ways"]["routed"]["figures"]["sentiment"]["accuracy"]
        values.append(("sentiment", right, right >= LEAST_SENTIMENT))
    return [f"{name}: {what} {value}" for what, value, is_kept in values if not is_kept]


if __name__ == "__main__":
    sys.exit(main())
