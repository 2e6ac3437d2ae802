"""A run of a slow script with everything the doctor can see, and what it found: for its output."""

from dataclasses import replace
from pathlib import Path

from tests.golden.cases import CPU

from hotloop.core.case.case import Case
from hotloop.core.case.environment import Ceiling, Operator
from hotloop.core.case.objects import AttentionFacts, Model, Optimizer, ParameterGroup, Scheduler
from hotloop.core.case.steps_and_loaders import BatchFacts, EvaluationSpan, Loader, Save, Steps
from hotloop.core.finding import Diagnosis, Finding, Remedy, SourceLocation
from hotloop.core.measurement import Measurement

HERE = Path("/home/me/project")
SCRIPT, DATA = str(HERE / "train.py"), str(HERE / "reviews" / "data.py")
MODEL = str(HERE / "reviews" / "model.py")
SOURCES = {
    SCRIPT: """\
import torch
from torch.utils.data import DataLoader

from reviews.data import Reviews, collate
from reviews.model import Classifier

model = Classifier(vocabulary=8000, width=128, classes=2)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=40_000)
train = DataLoader(Reviews("train.csv"), batch_size=32, shuffle=True, collate_fn=collate)
valid = DataLoader(Reviews("valid.csv"), batch_size=32, collate_fn=collate)
best = float("inf")
for epoch in range(8):
    for step, batch in enumerate(train):
        loss = model(**batch)
        (loss / 4).backward()
        scheduler.step()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
    score = evaluate(model, valid)
    if score < best:
        best = score
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "best.pt")
""",
    DATA: """\
class Reviews(Dataset):
    def __init__(self, path):
        self.rows = read(path)
        self.tokenizer = Tokenizer.from_file("tokenizer.json")

    def __getitem__(self, index):
        text, label = self.rows[index]
        ids = self.tokenizer.encode(clean(text)).ids[:512]
        return {"input_ids": ids + [0] * (512 - len(ids)), "labels": label}
""",
}
WALL = {
    "start": 0.31,
    "import": 1.42,
    "data load": 0.55,
    "data wait": 8.83,
    "prepare": 0.04,
    "forward": 0.95,
    "backward": 1.31,
    "optimizer": 0.22,
    "after step": 0.03,
    "evaluate": 0.86,
    "save": 0.41,
    "log": 0.02,
}


def _wave(n: int) -> float:
    """Return noise between -1 and 1 that needs no generator."""
    return (n * 7919 % 101) / 50 - 1


_STEPS = 120
_STEP = tuple(0.0947 * (1 + 0.02 * _wave(n)) + 0.1 * (n % 40 == 0) for n in range(_STEPS))
_LENGTHS = tuple(min(512, 40 + n * n * 37 % 113 + n * 31 % 67 + 300 * (n % 29 == 0))
                 for n in range(256))  # fmt: skip

LOADERS = (
    Loader(
        key=1,
        place=SourceLocation(file=SCRIPT, line=10),
        dataset="Reviews",
        getitem=SourceLocation(file=DATA, line=6),
        collate="collate",
        length=5120,
        batches=160,
        batch_size=32,
        shuffle=True,
        sampler="RandomSampler",
        iterations=3,
        waits=tuple(0.0184 * (1 + 0.05 * _wave(n)) for n in range(480)),
        first_waits=(0.0205, 0.0199, 0.0201),
    ),
    Loader(key=2, role="evaluate", place=SourceLocation(file=SCRIPT, line=11), dataset="Reviews",
           collate="collate", length=640, batches=20, batch_size=32, iterations=2),
)  # fmt: skip
BATCHES = (
    BatchFacts(
        loader=1,
        sampled=8,
        shapes={"input_ids": (32, 512), "labels": (32,)},
        widths=(512,) * 8,
        lengths=_LENGTHS,
        pad_id=0,
        padding=0.743,
        truncated=0.012,
        duplicated=0.0,
        label="labels",
        labels={"1": 130, "0": 126},
        decoded="[CLS] A film that <b>almost</b> works & then does not.\nTwo stars. [PAD] [PAD]",
        place=SourceLocation(file=SCRIPT, line=15),
    ),
)
MODELS = (
    Model(
        name="Classifier",
        place=SourceLocation(file=MODEL, line=14),
        parameters=1_420_000,
        trainable=1_420_000,
        bytes=5_680_000,
        dtypes={"float32": 1_420_000},
        compute="float32",
        attention=(AttentionFacts(kind="sdpa", kernel="flash", causal=False),),
        dropout=0.1,
    ),
)
OPTIMIZERS = (
    Optimizer(
        key=1,
        name="AdamW",
        place=SourceLocation(file=SCRIPT, line=8),
        groups=(ParameterGroup(parameters=1_420_000, tensors=22, fused=False, foreach=False),),
        steps=_STEPS,
        rates=tuple((step, 4e-5 + step * 2e-7) for step in range(1, _STEPS + 1, 10)),
    ),
)
OPERATORS = (
    Operator(name="aten::addmm", shapes="[16384, 128] x [128, 512]", seconds=0.0081, share=0.41,
             calls=16, dtype="float32", place=SourceLocation(file=MODEL, line=31)),
    Operator(name="aten::_scaled_dot_product_flash_attention_for_cpu_backward",
             shapes="[32, 4, 512, 32]", seconds=0.0052, share=0.26, calls=8, dtype="float32"),
    Operator(name="aten::embedding_dense_backward", shapes="[32, 512, 128]", seconds=0.0017,
             share=0.086, calls=4),
)  # fmt: skip
CEILINGS = (
    Ceiling(name="baseline", step_time=(0.0946, 0.0951, 0.0949, 0.0950, 0.0948), factor=1.0),
    Ceiling(name="compute", step_time=(0.0302, 0.0305, 0.0303, 0.0304, 0.0301), factor=3.13),
    Ceiling(name="no logging", step_time=(0.0945, 0.0952, 0.0947, 0.0949, 0.0950), factor=1.0),
    Ceiling(name="no optimizer", why_not="the child run was killed after 30 s"),
)

CASE = Case(
    hardware=replace(CPU, versions={"python": "3.11.9", "torch": "2.13.0"}),
    script=SCRIPT,
    wall=WALL,
    steps=Steps(
        count=_STEPS,
        wall=_STEP,
        rows={"data wait": tuple(0.8 * wall for wall in _STEP),
              "backward": tuple(0.11 * wall for wall in _STEP)},
        numbers=tuple(range(1, _STEPS + 1)),
        backwards=4.0,
        samples=32.0,
        tokens=16384.0,
        losses=tuple((n, 0.7 - n / 400 + 0.03 * _wave(n)) for n in range(1, _STEPS + 1, 2)),
    ),
    stopped="the step time is stable, one evaluation and one save were seen",
    planned_steps=10_000,
    epochs=3,
    loaders=LOADERS,
    batches=BATCHES,
    models=MODELS,
    optimizers=OPTIMIZERS,
    schedulers=(Scheduler(name="OneCycleLR", place=SourceLocation(file=SCRIPT, line=9), steps=480,
                          total=40_000, optimizer_steps=120),),
    evaluations=(
        EvaluationSpan(at=6.2, seconds=0.44, step=40, batches=20,
                       place=SourceLocation(file=SCRIPT, line=21)),
        EvaluationSpan(at=10.9, seconds=0.42, step=80, batches=20,
                       place=SourceLocation(file=SCRIPT, line=21)),
    ),
    saves=(
        Save(at=6.65, seconds=0.21, step=40, bytes=17_000_000, path="best.pt"),
        Save(at=11.33, seconds=0.2, step=80, bytes=17_000_000, path="best.pt", same_path=True),
    ),
    sources=SOURCES,
    operators=OPERATORS,
    profiled=True,
    ceilings=CEILINGS,
    techniques={"fused-adamw": "fused=True in 1 group"},
    requested={"batch_size": "32", "precision": "float32"},
    not_checked=("readings of the GPU: there is none",),
    own_time=0.31,
)  # fmt: skip

TOKENIZE = Finding(
    rule="D13 tokenize_hot",
    claim="70% of the wall time is waiting for data: each sample is tokenised again when read",
    severity="critical",
    share=0.70,
    saves=0.0736,
    ceiling=3.29,
    places=[SourceLocation(file=DATA, line=8), SourceLocation(file=SCRIPT, line=10)],
    evidence={
        "wait for a batch": Measurement(unit="s", readings=LOADERS[0].waits),
        "in the tokenizer": "7.9 s of 8.8 s, 412 samples of the stack",
    },
    because=["D2 workers0: the loader has no worker process, so the loop waits for each sample"],
    remedies=[
        Remedy(text="keep each sample that was read", effort="option", technique="sample-cache"),
        Remedy(text="tokenise once before training and keep the result", effort="code edit"),
    ],
)
SCHEDULE = Finding(
    rule="S11 schedule_against_accumulation",
    kind="correctness",
    claim="the scheduler is stepped 480 times for 120 updates: the schedule ends after a quarter",
    severity="critical",
    places=[SourceLocation(file=SCRIPT, line=17)],
    evidence={"scheduler": "OneCycleLR, 480 calls", "optimizer": "AdamW, 120 updates"},
    remedies=[Remedy(text="call scheduler.step() below optimizer.step()", effort="code edit")],
)
PADDING = Finding(
    rule="D23 pad_to_max",
    claim="every batch is 512 tokens wide, 74% of the positions are padding",
    severity="warn",
    share=0.11,
    saves=0.0136,
    ceiling=1.12,
    places=[SourceLocation(file=DATA, line=9),
            SourceLocation(file="/usr/lib/python3/elsewhere.py", line=3)],
    remedies=[
        Remedy(text="pad to the longest row of a batch", technique="dynamic-padding",
               effort="option"),
    ],
)  # fmt: skip
ADAM = Finding(
    rule="O3 unfused_adamw",
    claim="AdamW updates one tensor at a time",
    severity="note",
    remedies=[Remedy(text="torch.optim.AdamW(..., fused=True)")],
)
COMPILE = Finding(
    rule="G9 compile_pays_back",
    claim="torch.compile would need 2,100 steps to pay back its 41 s",
    severity="note",
    share=0.004,
)


def _diagnosis(*findings: Finding) -> Diagnosis:
    return Diagnosis(
        findings=findings,
        wall=CASE.wall,
        steps=CASE.steps.count,
        step_time=CASE.step_time,
        not_worth_it=[COMPILE],
        not_checked=[
            "16 rules of the GPU: needs a CUDA GPU",
            "3 rules of several processes: needs more than one process",
            *CASE.not_checked,
        ],
        own_time=CASE.own_time,
    )


SLOW = _diagnosis(TOKENIZE, PADDING, ADAM)
WRONG = _diagnosis(SCHEDULE, TOKENIZE, PADDING, ADAM)
# A healthy run, and one whose steps jump about.
FINE = Diagnosis(findings=[], wall={}, steps=1000, step_time=None, own_time=0.0)
UNSTEADY = replace(SLOW, unstable="the step time is not steady (it spreads): take figures as rough")
