"""The recipes that run on null cards: what a user types, and which of their waits are explained."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CARDS", "EACH_CAPABILITY", "RECIPES", "Recipe", "Run", "explained", "write_files"]

CARDS = ("rtx4090", "t4", "rtx3090")  # of the tests
# Of the matrix: the host asks a card for its capability, and for its memory when that is scarce.
EACH_CAPABILITY = ("t4", "a100", "rtx3090", "rtx4090", "h100", "rtx5090")
SETTINGS = {"max_steps": 10, "log_every": 5, "eval_every_steps": 7, "save_every_steps": 7}
SETTINGS |= {"batch_size": 32, "accumulation": 1, "epochs": "null", "eval_every_epochs": "null"}
PARTS = ("training", "router_training", "joint_training")  # settings of the runs of a series
WORDS = ["quick", "brown", "fox", "jumps", "lazy", "dog", "wizard", "vex"]
# Large enough that the 20 MiB in which torch's allocator takes memory do not hide what is needed.
MODEL = {"vocab_size": 400, "max_position_embeddings": 1024, "num_hidden_layers": 2}
MODEL |= {"hidden_size": 512, "intermediate_size": 2048, "num_attention_heads": 8}
GROUPED = {"num_key_value_heads": 4, "head_dim": 64}
ROWS, LONGEST = 320, 200  # of a file; words of a row
ITEM, COPY = "cudaStreamSynchronize", "cudaMemcpyAsync to pageable memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a command, and how often it waits."""

    name: str = ""  # within a series
    reads: int = 1  # waits at a log interval
    metrics: int = 1  # whether a validation has metrics
    windows: int = 1  # of 64 MiB in a checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A row of the table: the recipe is the name's first word, {folder} that of `write_files`."""

    name: str
    options: tuple[str, ...]
    runs: tuple[Run, ...] = (Run(),)
    cards: tuple[str, ...] = EACH_CAPABILITY  # of the matrix
    why: str = ""  # what its steps wait for, if they do

    def words(self, folder: Path) -> list[str]:
        """Return what is typed after `hotloop train`."""
        settings = [
            f"{part}.{key}={value}"
            for part in PARTS[: len(self.runs)]
            for key, value in SETTINGS.items()
            if not any(option.startswith(f"{part}.{key}=") for option in self.options)
        ]
        options = [word.format(folder=folder) for word in self.options]
        return [self.name.split()[0].strip(","), *settings, *options]

    def named(self, run: Run) -> str:
        """Return the name of a run's row."""
        return f"{self.name} {run.name}".strip()


_ENCODER = ("model.name={folder}/encoder", "data.path={folder}/pairs.jsonl")
_DECODER = ("model.name={folder}/decoder", "data.path={folder}/answers.jsonl")
_ROUTED = (
    "model.name={folder}/decoder",
    "data.path={folder}/tasks",
    'data.files={{"translation": "{folder}/tasks/translation.jsonl"}}',
)
_CHARACTERS = ("data.path={folder}/corpus.txt", "model.layers=4", "model.heads=8")
_CHARACTERS += ("model.width=512", "model.context=256", "model.dropout=0.1")
_CHARACTER_RUN = Run(metrics=0, windows=3)
RECIPES = (
    Recipe(name="char-lm", options=_CHARACTERS, runs=(_CHARACTER_RUN,)),
    Recipe(
        name="char-lm diffusion",
        options=(*_CHARACTERS, "objective=diffusion"),
        runs=(_CHARACTER_RUN,),
    ),
    Recipe(
        name="pair-classifier flat",
        options=(*_ENCODER, "data.layout=flat"),
        runs=(Run(windows=2),),
    ),
    Recipe(
        name="pair-classifier padded",
        options=(*_ENCODER, "data.layout=padded"),
        runs=(Run(windows=2),),
    ),
    Recipe(
        name="pair-classifier balanced",
        options=(*_ENCODER, "data.layout=flat", "class_weights=balanced"),
        runs=(Run(windows=2),),
    ),
    Recipe(
        name="chat-sft flat",
        options=(*_DECODER, "data.layout=flat"),
    ),
    Recipe(
        name="chat-sft padded",
        options=(*_DECODER, "data.layout=padded"),
    ),
    Recipe(
        name="expert-sft lora packed",
        options=(*_DECODER, "data.max_length=512", "adapter.method=lora"),
    ),
    Recipe(
        name="expert-sft dora packed",
        options=(*_DECODER, "data.max_length=512", "adapter.method=dora"),
    ),
    Recipe(
        name="task-router padded",
        options=_ROUTED,
        runs=(
            Run(name="phase-1", reads=2),
            Run(name="phase-2", reads=2),
            Run(name="phase-3", reads=2),
        ),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reason:
    part: str  # "log interval", "validation" or "save"
    call: str
    times: str | int  # a field of Run, or a number
    why: str
    fp16_only: bool = False  # under GradScaler
    first_only: bool = False  # in the first of its kind


EXPLAINED = (
    _Reason(
        part="log interval", call=COPY, times="reads", why="losses are read, and their sums by task"
    ),
    _Reason(
        part="validation",
        call=COPY,
        times="reads",
        why="the losses of the steps since the last log interval are read before it",
        first_only=True,  # the last validation stands at a log interval
    ),
    _Reason(part="validation", call=ITEM, times=1, why="the mean loss is read at its end"),
    _Reason(
        part="validation", call=COPY, times="metrics", why="the metrics' counts are read at its end"
    ),
    _Reason(
        part="save",
        call=ITEM,
        times="windows",
        why="checkpoint/tensor_file.py: tensors are copied to pinned memory, one wait in 64 MiB",
    ),
    _Reason(
        part="save",
        call=ITEM,
        times=2,
        why="GradScaler.state_dict reads its scale and its count of steps (float16)",
        fp16_only=True,
    ),
)


def explained(
    part: str, run: Run, *, fp16: bool = False, is_first: bool = False
) -> Mapping[str, int]:
    """Return the waits of a log interval, a validation or a save for which there is a reason."""
    waits = Counter[str]()
    for row in EXPLAINED:
        applies = (fp16 or not row.fp16_only) and (is_first or not row.first_only)
        if row.part == part and applies:
            times = getattr(run, row.times) if isinstance(row.times, str) else row.times
            waits[row.call] += times
    return dict(+waits)


def write_files(folder: Path) -> None:
    """Write the models and the rows that the recipes name."""
    from tests.data.tokenising.test_tokenize import jsonl  # these import torch and tokenizers
    from tests.golden import tiny_models, tiny_tokenizer

    for name, kind in (("encoder", "bert"), ("decoder", "qwen3")):
        tiny_tokenizer.save(folder / name, bos=kind == "bert")
        tiny_models.saved(folder / name, kind, **MODEL, **(GROUPED if kind == "qwen3" else {}))
    texts = [_words(at) for at in range(ROWS)]
    (folder / "corpus.txt").write_text("\n".join(texts))
    jsonl(folder / "answers.jsonl", [{"prompt": f"what is {t}", "response": t} for t in texts])
    rows = enumerate(texts)
    jsonl(
        folder / "pairs.jsonl",
        [{"premise": text, "hypothesis": "dog", "label": at % 2} for at, text in rows],
    )
    tasks = folder / "tasks"
    tasks.mkdir()
    rows = enumerate(texts)
    jsonl(tasks / "sentiment.jsonl", [{"text": text, "label": at % 2} for at, text in rows])
    jsonl(tasks / "translation.jsonl", [{"en": text, "fr": f"le {text}"} for text in texts])


def _words(at: int) -> str:
    """Return the text of a row; rows differ in length, most are short."""
    count = 2 + LONGEST * (at * 37 % ROWS) ** 2 // ROWS**2
    return " ".join(WORDS[(at + place * (at % 7 + 1)) % 8] for place in range(count))
