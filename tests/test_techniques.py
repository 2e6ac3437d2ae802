"""The contract every technique keeps. A new one is held to it by being listed in ALL.

The checks are functions that return what is wrong, so that planted bad techniques can be fed to
them at the end of this file. What a technique does to the numbers is test_parity.py's business.
"""

import gc
import inspect
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from tests.golden import fake_deepspeed, fake_torchao
from tests.golden.outside import MACHINE, script
from torch.utils.data import DataLoader

from hotloop import techniques
from hotloop.core.errors import PlanError
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan, Use, Value
from hotloop.data.sampling.context_windows import Windows
from hotloop.diagnosis.apply_techniques import AppliedTechniques
from hotloop.engine.cuda_graphs import GraphedMicroStep
from hotloop.machine.onednn_matmul import Products
from hotloop.models.gpt import Gpt, next_token_loss
from hotloop.observe.observer import ScriptObserver as ScriptHost
from hotloop.observe.when_to_stop import StopLimits
from hotloop.recipes.building.optimizers import AdamWFactory
from hotloop.session.job import Job
from hotloop.session.session import Session
from hotloop.techniques import device_prefetch, fp8, matmul_onednn
from hotloop.techniques.base import HEADINGS, HostKind, Numerics, Stage, Technique, anywhere

# Dynamo looks at `.grad` of tensors inside the graph; where warnings are errors it trips over that.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
every_technique = pytest.mark.parametrize("technique", techniques.ALL, ids=lambda t: t.id)
OF_THE_ENGINE = [t for t in techniques.ALL if HostKind.ENGINE in t.hosts]
OF_SCRIPTS = [t for t in techniques.ALL if HostKind.SCRIPT in t.hosts]


def cpu(*features: str, cores: float | None = 2.0) -> Hardware:
    return Hardware(device="cpu", name="a CPU", cores=cores, cpu_features=frozenset(features))


def card(name: str, capability: tuple[int, int] | None) -> Hardware:
    return Hardware(device="cuda", name=name, cores=8.0, capability=capability)


MACHINES = {
    "cpu bf16": cpu("avx2", "avx512_bf16"),
    "cpu": cpu("avx2"),
    "cpu unknown": cpu(cores=None),
    "mps": Hardware(device="mps", name="Apple M3", cores=8.0),
    "gtx 1080": card("NVIDIA GeForce GTX 1080", (6, 1)),
    "t4": card("Tesla T4", (7, 5)),
    "rtx 3090": card("NVIDIA GeForce RTX 3090", (8, 6)),
    "rtx 4090": card("NVIDIA GeForce RTX 4090", (8, 9)),
    "h100": card("NVIDIA H100 80GB HBM3", (9, 0)),
    "unknown card": card("a card of tomorrow", None),
}
# What cannot work where, from the gates of the shared design's TECHNIQUES.md. All else can.
_NO_CUDA = {
    "autocast-fp16",
    "cuda-graphs",
    "cudnn-benchmark",
    "device-prefetch",
    "fp8",
    "int8-mixed-precision",
    "tf32",
    "compile(mode=reduce-overhead)",
    "sdpa(backend=efficient)",
    "sdpa(backend=cudnn)",
}
_SEVERAL = {"ddp", "deepspeed", "fsdp2"}  # a plan of one rank
_CPU = _NO_CUDA | {"lagged-loss-read"}
_CUDA = {"matmul-onednn"}
_LOW = {"fp8", "int8-mixed-precision"}
_BEFORE_SM80 = (
    _LOW | {"autocast-bf16", "tf32", "sdpa(backend=flash)", "sdpa(backend=cudnn)"} | _CUDA
)
BLOCKED = {
    "cpu bf16": _CPU,
    "cpu": _CPU | {"autocast-bf16"},
    "cpu unknown": _CPU | {"autocast-bf16", "threads"},
    "mps": _NO_CUDA | {"autocast-bf16", "matmul-onednn", "sdpa(backend=flash)"},
    "gtx 1080": _BEFORE_SM80 | {"autocast-fp16", "compile", "compile(mode=reduce-overhead)"},
    "t4": _BEFORE_SM80,
    "rtx 3090": _CUDA | {"fp8"},
    "rtx 4090": _CUDA,
    "h100": _CUDA,
    # Unknown is not a yes for a number format; a kernel is tried before it is used.
    "unknown card": _CUDA
    | _LOW
    | {"autocast-bf16", "autocast-fp16", "tf32", "sdpa(backend=flash)"},
}
LOOKED_AT = [
    *(Use.of(technique.id) for technique in techniques.ALL),
    Use.of("compile", mode="reduce-overhead"),
    *(Use.of("sdpa", backend=b) for b in ("flash", "efficient", "cudnn", "math", "naive")),
    Use.of("threads", count=2),
]


# The default of one is slow, that of the other depends on the machine.
NOT_THE_DEFAULT: Mapping[str, Mapping[str, Value]] = {
    "compile": {"backend": "aot_eager"},
    "threads": {"count": 3},
}


# The checks: each returns what is wrong.


def wrong_list(known: Sequence[Technique]) -> list[str]:
    ids = [technique.id for technique in known]
    wrong = [] if ids == sorted(ids) else ["ids are not sorted"]
    return wrong + [f"{id} stands twice" for id in sorted(set(ids)) if ids.count(id) > 1]


def wrong_page(technique: Technique) -> list[str]:
    first, _, body = technique.page.partition("\n\n")
    before, *rest = re.split(r"^(\w[\w ]*:)", body, flags=re.MULTILINE)
    found = dict(zip(rest[::2], rest[1::2], strict=True))
    sentence = re.fullmatch(r"\S.+\.", first, flags=re.DOTALL) and not before
    wrong = [] if sentence else ["the page does not begin with one sentence"]
    if tuple(found) != HEADINGS:
        wrong.append(f"headings are {tuple(found)}")
    wrong += [f"{heading} says nothing" for heading, text in found.items() if not text.split()]
    return wrong + ["Source: has no link"] * ("https://" not in found.get("Source:", ""))


def wrong_file(technique: Technique, module: Any) -> list[str]:
    wrong = [] if module.TECHNIQUE is technique else ["TECHNIQUE of its file is another one"]
    if Path(module.__file__).stem != technique.id.replace("-", "_"):
        wrong.append(f"{Path(module.__file__).name} is not named after {technique.id}")
    return wrong + ["the page is not its docstring"] * (technique.page != module.__doc__)


def wrong_choices(technique: Technique) -> list[str]:
    keywords = {
        p.name: p.default
        for p in inspect.signature(technique.apply).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    }
    stated = {name: values[0] for name, values in technique.choices.items()}
    wrong = [] if keywords == stated else [f"choices begin {stated}, apply has {keywords}"]
    for name, values in technique.choices.items():
        if len(set(values)) != len(values) or len({type(value) for value in values}) != 1:
            wrong.append(f"the values of {name} are not distinct values of one type")
    return wrong


def wrong_excludes(technique: Technique, known: Sequence[Technique]) -> list[str]:
    by_id = {other.id: other for other in known}
    wrong = [f"excludes {id}, which is none" for id in technique.excludes - by_id.keys()]
    for other in map(by_id.get, technique.excludes & by_id.keys()):
        assert other is not None
        if technique.id not in other.excludes:
            wrong.append(f"{other.id} does not exclude it in return")
    return wrong + ["excludes itself"] * (technique.id in technique.excludes)


def wrong_promise(technique: Technique) -> list[str]:
    room = technique.tolerance > 0 and 0 < technique.cosine < 1
    if technique.numerics is Numerics.ROUNDING:
        return [] if room else ["ROUNDING needs a tolerance and a cosine"]
    exact = (technique.tolerance, technique.cosine) == (0.0, 1.0)
    return [] if exact else ["tolerance and cosine are for ROUNDING only"]


def every_choice(technique: Technique) -> list[Mapping[str, Value]]:
    names = list(technique.choices)
    return [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*technique.choices.values())
    ]


def wrong_gate(technique: Technique, machines: Mapping[str, Hardware]) -> list[str]:
    wrong = []
    for (name, hardware), choice in itertools.product(machines.items(), every_choice(technique)):
        plan = Plan(micro_batch=1).plus(technique.id, **choice)
        try:
            why = technique.blocked(hardware, plan)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            wrong.append(f"{name}, {choice}: {error!r}")
        else:
            if why is not None and len(why.split()) < 4:
                wrong.append(f"{name}, {choice}: {why!r} is no sentence")
    return wrong


def wrong_effect(technique: Technique, **choice: Value) -> list[str]:
    """Apply it to a session on this CPU, whatever its gate says, and read it back."""
    session = SESSIONS.get(technique.id, a_session)()
    if technique.stage >= Stage.OPTIMIZER:
        session.optimizer = session.job.optimizer(session.model)
    wrong = []
    try:
        if (before := technique.read_back(session)) is not None:
            wrong.append(f"before it is applied, it reads back {before!r}")
        changed = technique.apply(session, **choice)
        if type(changed) is not int or changed < 1:
            wrong.append(f"apply answered {changed!r}")
        if technique.stage is Stage.COMPILE:
            first_call(session)
        after = technique.read_back(session)
        if after is None or len(after.split()) < 2:
            wrong.append(f"after it was applied, it reads back {after!r}")
        if technique.stage in (Stage.PROCESS, Stage.COMPILE) and not session.undo:
            wrong.append("session.undo has no way back")
    finally:
        for id in list(session.undo):
            session.undo.pop(id)()
    if technique.stage in (Stage.PROCESS, Stage.COMPILE) and technique.read_back(session):
        wrong.append("it is still in effect after undo")
    return wrong


def wrong_in_a_script(technique: Technique, **choice: Value) -> list[str]:
    """Put it into a script on this CPU, whatever its gate says; what it says must not be empty."""
    use = Use.of(technique.id, **choice)
    put_in = AppliedTechniques(
        Plan(micro_batch=1, techniques=(use,)),
        {},
        hardware=MACHINE,
        known=[replace(technique, blocked=anywhere)],
    )
    observer = ScriptHost(StopLimits(full=True, probing=False))
    put_in.join(observer)
    before, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    observer.start()
    try:
        SCRIPTS.get(technique.id, script)()
        (effect,) = put_in.effects()
    finally:
        observer.finish()
        torch.set_num_threads(before)
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.benchmark = False
        gc.unfreeze()
    wrong = [f"{effect.word}: {effect.how}"] if effect.word != "in effect" else []
    if len(effect.how.split()) < 2:
        wrong.append(f"it reads back {effect.how!r}")
    return wrong + [f"a fault: {observer.hooks.fault}"] * (observer.hooks.fault is not None)


def attend() -> None:
    """Train a module that calls scaled_dot_product_attention."""
    x = torch.randn(2, 5, 8)
    net = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    update = torch.optim.SGD(net.parameters(), lr=0.1)
    net(x, x, x, need_weights=False)[0].sum().backward()
    update.step()


def padded() -> None:
    """Iterate over rows that are mostly padding."""
    row = {"ids": torch.ones(24), "attention_mask": (torch.arange(24) < 5).long()}
    list(DataLoader([row] * 4, batch_size=2))


def bucketed() -> None:
    """Iterate at random over rows of all lengths, padded to the longest of a batch."""
    rows = [torch.ones(1 + at % 20) for at in range(40)]
    collate = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
    list(DataLoader(rows, batch_size=4, shuffle=True, collate_fn=collate))


def moving() -> None:
    """Train on batches that the loop moves to its device."""
    net = torch.nn.Linear(3, 1)
    update = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in DataLoader(torch.ones(8, 3), batch_size=2):
        net(x.to("cpu")).sum().backward()
        update.step()


class CopyAtOnce:
    """Stands in for a card's side stream."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def send(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], None]:
        return [tensor.clone() for tensor in tensors], None

    def arrive(self, tensor: torch.Tensor, event: None, *, wait: bool) -> None:
        """It is there."""


def sending_to_the_cpu(session: Any) -> int:
    return device_prefetch.send_ahead(session, CopyAtOnce, "cpu")


# What stands in for the usual script, and choices that change something in it.
SCRIPTS = {
    "sdpa": attend,
    "device-prefetch": moving,
    "dynamic-padding": padded,
    "length-bucketing": bucketed,
    "token-budget": bucketed,
}
IN_A_SCRIPT: Mapping[str, Mapping[str, Value]] = {
    "compile": {"backend": "aot_eager"},
    "threads": {"count": 3},
    "sdpa": {"backend": "math"},
}


def first_call(session: Session) -> None:
    batch = session.job.train.batch(0, 0, 2)
    session.forward(batch.tensors).backward()
    if session.stepping.graphs:  # a card would record it
        session.stepping.replay = GraphedMicroStep(
            session, batch.tensors, lambda once: (once, once())
        )


def importing_torch(files: Sequence[Path]) -> list[str]:
    """Return the files that import torch (or cannot be imported without it)."""
    code = (
        "import importlib.util, sys\n"
        "sys.modules['torch'] = None\n"  # from here on `import torch` is an error
        "for file in sys.argv[1:]:\n"
        "    spec = importlib.util.spec_from_file_location('planted', file)\n"
        "    try:\n"
        "        spec.loader.exec_module(importlib.util.module_from_spec(spec))\n"
        "    except ImportError as error:\n"
        "        print(file)\n"
    )
    command = [sys.executable, "-c", code, *map(str, files)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()


def a_session(width: int = 8) -> Session:
    """Two blocks on a CPU; the corpus is numbers."""
    ids = np.arange(200, dtype=np.uint16) % 7
    windows = Windows(ids, tokens_fingerprint="", context=8, seed=0, shuffle=True)
    job = Job(
        name="contract",
        model=lambda: Gpt(vocabulary=7, layers=2, heads=2, width=width, context=8),
        loss=next_token_loss,
        optimizer=AdamWFactory(learning_rate=1e-3, betas=(0.9, 0.99), weight_decay=0.1),
        train=windows,
        valid=windows,
        seed=0,
    )
    model = job.model()
    return Session(
        job=job,
        hardware=cpu("avx2"),
        device=torch.device("cpu"),
        model=model,
        micro_batch=2,
        accumulation=1,
        forward=lambda tensors: job.loss(model, tensors),
    )


def with_a_convolution() -> Session:
    session = a_session()
    session.model = torch.nn.Conv2d(3, 4, 3)
    return session


@pytest.fixture(autouse=True)
def no_group_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave the group of `in_a_group`; torch puts a hook of its own in as it is made."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def in_a_group() -> Session:
    """A session whose process is all of a group of torch.distributed."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    return a_session()


class FromFiles(Windows):
    """Samples that cost time to read."""

    in_memory = False


def with_data_that_are_read() -> Session:
    session = a_session()
    ids = np.arange(200, dtype=np.uint16) % 7
    files = FromFiles(ids, tokens_fingerprint="", context=8, seed=0, shuffle=True)
    session.job = replace(session.job, train=files)
    return session


# What finds something to change in another session, and what goes by the CPU's products.
SESSIONS = {
    "channels-last": with_a_convolution,
    "cudnn-benchmark": with_a_convolution,
    "ddp": in_a_group,
    "deepspeed": in_a_group,
    "fsdp2": in_a_group,
    "loader-workers": with_data_that_are_read,
}
FASTER = Products(relative_error=4e-7, same_bits=False, rate=1.9)


def on_another_cpu(session: Session, **choice: Any) -> int:
    return matmul_onednn.switch(session, FASTER, **choice)


# What needs another machine, put in as if this were one.
ELSEWHERE = {"matmul-onednn": on_another_cpu, "device-prefetch": sending_to_the_cpu}


def module_of(technique: Technique) -> Any:
    return sys.modules[technique.apply.__module__]


# The contract.


def test_the_list_is_sorted_and_unique() -> None:
    assert wrong_list(techniques.ALL) == []


def test_every_file_of_the_folder_is_listed() -> None:
    folder = Path(techniques.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "base", "selection"}
    assert files == {technique.id.replace("-", "_") for technique in techniques.ALL}


def test_no_file_imports_torch() -> None:
    assert importing_torch([Path(module_of(t).__file__) for t in techniques.ALL]) == []


@every_technique
def test_its_file_is_its_page(technique: Technique) -> None:
    assert wrong_file(technique, module_of(technique)) + wrong_page(technique) == []


@every_technique
def test_its_page_says_what_was_measured(technique: Technique) -> None:
    measured = technique.page.split("Measured:")[1].split("Source:")[0]
    assert re.search(r"\d", measured) or "not measured here: needs a CUDA card" in measured


@every_technique
def test_its_choices_are_the_keywords_of_apply(technique: Technique) -> None:
    assert wrong_choices(technique) == []


@every_technique
def test_its_exclusions_are_real_and_mutual(technique: Technique) -> None:
    assert wrong_excludes(technique, techniques.ALL) == []


@every_technique
def test_its_promise_is_complete(technique: Technique) -> None:
    assert wrong_promise(technique) == []
    assert technique.hosts
    assert technique.nothing


@every_technique
def test_its_gate_answers_everywhere(technique: Technique) -> None:
    assert wrong_gate(technique, MACHINES) == []


@pytest.mark.parametrize("technique", OF_THE_ENGINE, ids=lambda t: t.id)
def test_it_takes_effect_and_says_so(technique: Technique, monkeypatch: Any) -> None:
    fake_torchao.install(monkeypatch)
    fake_deepspeed.install(monkeypatch)
    monkeypatch.setattr(fp8, "WIDE", 1)
    monkeypatch.setattr(fp8, "_MULTIPLE", 1)
    if technique.id == "matmul-onednn":
        technique = replace(technique, apply=on_another_cpu)
    assert wrong_effect(technique, **NOT_THE_DEFAULT.get(technique.id, {})) == []


@pytest.mark.parametrize("technique", OF_SCRIPTS, ids=lambda t: t.id)
def test_in_a_script_it_takes_effect_and_says_so(technique: Technique) -> None:
    technique = replace(technique, apply=ELSEWHERE.get(technique.id, technique.apply))
    assert wrong_in_a_script(technique, **IN_A_SCRIPT.get(technique.id, {})) == []


@pytest.mark.parametrize("machine", MACHINES)
def test_what_cannot_work_where(machine: str, monkeypatch: Any) -> None:
    fake_torchao.install(monkeypatch)
    shape, compiled = Plan(micro_batch=1), Plan(micro_batch=1).plus("compile")
    blocked = {
        str(use)
        for use in LOOKED_AT
        for plan in (compiled if use.id in _LOW else shape,)
        if techniques.get(use.id).blocked(MACHINES[machine], plan.plus(use.id, **dict(use.choice)))
    }
    assert blocked == BLOCKED[machine] | _SEVERAL


def test_more_threads_than_cores_are_refused_and_unknown_cores_want_a_number() -> None:
    blocked = techniques.get("threads").blocked
    four = Plan(micro_batch=1).plus("threads", count=4)
    assert "4 threads on 2 cores" in (blocked(cpu(), four) or "")
    assert blocked(cpu(cores=4.0), four) is None
    assert blocked(cpu(cores=None), four) is None
    assert "2 threads on 1.5 cores" in (
        blocked(cpu(cores=1.5), Plan(micro_batch=1).plus("threads", count=2)) or ""
    )


def test_by_itself_the_thread_count_is_lowered_to_the_cores_and_never_raised() -> None:
    technique, before = techniques.get("threads"), torch.get_num_threads()
    session = a_session()
    try:
        for count, cores, want in ((4, 2.0, 2), (4, 2.9, 2), (4, 0.5, 1), (1, 2.0, 1)):
            torch.set_num_threads(count)
            session.hardware = cpu(cores=cores)
            assert technique.apply(session) == (want != count)
            assert torch.get_num_threads() == want
    finally:
        torch.set_num_threads(before)


def test_a_mode_of_inductor_is_refused_with_another_back_end() -> None:
    plan = Plan(micro_batch=1).plus("compile", mode="max-autotune", backend="aot_eager")
    assert "mode of the inductor" in (techniques.get("compile").blocked(cpu(), plan) or "")


@pytest.mark.parametrize("backend", ["auto", "flash", "efficient", "cudnn", "math", "naive"])
def test_attention_is_read_back_by_the_kernel_that_ran(backend: str) -> None:
    session = a_session()
    technique = techniques.get("sdpa")
    assert technique.apply(session, backend=backend) == 2
    ran = "flash" if backend in ("efficient", "cudnn") else backend  # those two are not on a CPU
    kernel = "written-out" if ran in ("math", "naive") else "scaled_dot_product_flash_attention"
    assert (technique.read_back(session) or "").startswith(f"{ran}: {kernel}")
    session.undo["sdpa"]()
    assert {block.attention.attention for block in session.model.blocks} == {"auto"}


def test_what_was_frozen_is_collected_again_after_undo() -> None:
    session, before = a_session(), gc.get_freeze_count()
    assert techniques.get("gc-freeze").apply(session) > 0
    assert gc.get_freeze_count() > before
    session.undo["gc-freeze"]()
    assert gc.get_freeze_count() == 0


def test_a_model_without_attention_has_no_back_end_to_switch() -> None:
    session = a_session()
    session.model = torch.nn.Linear(2, 2)
    assert techniques.get("sdpa").apply(session, backend="naive") == 0
    assert techniques.get("sdpa").read_back(session) is None


@pytest.mark.parametrize("id", ["fused-adamw", "lagged-loss-read", "tf32", "threads"])
def test_what_is_there_already_is_not_needed(id: str) -> None:
    session, technique = a_session(), techniques.get(id)
    session.optimizer = session.job.optimizer(session.model)
    choice = NOT_THE_DEFAULT.get(id, {})
    try:
        assert technique.apply(session, **choice) > 0
        assert technique.apply(session, **choice) == 0
    finally:
        for undo in session.undo.values():
            undo()


def test_another_optimizer_is_left_alone() -> None:
    session = a_session()
    session.optimizer = torch.optim.SGD(session.model.parameters(), lr=0.1)
    assert techniques.get("fused-adamw").apply(session) == 0
    assert techniques.get("fused-adamw").read_back(session) is None


def test_compiling_leaves_the_names_of_the_weights() -> None:
    session = a_session()
    before = list(session.model.state_dict())
    techniques.get("compile").apply(session, backend="aot_eager")
    session.forward(session.job.train.batch(0, 0, 2).tensors).backward()
    assert list(session.model.state_dict()) == before
    session.undo["compile"]()
    assert list(session.model.state_dict()) == before


def test_graphs_of_an_earlier_session_are_not_counted() -> None:
    technique = techniques.get("compile")
    for width in (8, 16):
        session = a_session(width)
        technique.apply(session, backend="aot_eager")
        session.forward(session.job.train.batch(0, 0, 2).tensors).backward()
        assert technique.read_back(session) == "2 blocks, 1 graphs, 0 graph breaks"
        session.undo["compile"]()


def test_an_unknown_id_is_answered_with_the_nearest() -> None:
    with pytest.raises(PlanError, match="did you mean fused-adamw"):
        techniques.get("fused-adam")


# Planted: what the checks above are there to find.

GOOD = techniques.get("sdpa")


def apply_nothing(session: Session) -> int:
    del session
    return 1


def apply_none(session: Session) -> int:
    del session
    return 0


def raising_gate(hardware: Hardware, plan: Plan) -> str | None:
    del plan
    major, _ = hardware.capability  # type: ignore[misc] # None on a CPU: the planted fault
    return None if major > 7 else "needs a newer card than this one"


def planted(**changes: Any) -> Technique:
    return replace(GOOD, **changes)


def test_a_planted_pair_out_of_order_or_twice_is_caught() -> None:
    assert wrong_list([planted(id="b"), planted(id="a")])
    assert wrong_list([planted(id="a"), planted(id="a")])


@pytest.mark.parametrize(
    "page",
    [
        GOOD.page.replace("Measured:", "Gemessen:"),
        GOOD.page.replace("Numbers:", "Numbers were"),
        re.sub(r"Measured:.*?(?=Source:)", "Measured:\n", GOOD.page, flags=re.DOTALL),
        re.sub(r"(What:.*?)(Helps when:.*?)(?=Does)", r"\2\1", GOOD.page, flags=re.DOTALL),
        GOOD.page.replace("https", "see"),
        "",
    ],
)
def test_a_planted_page_is_caught(page: str) -> None:
    assert wrong_page(GOOD) == []
    assert wrong_page(planted(page=page))


def test_a_planted_file_name_is_caught() -> None:
    assert wrong_file(planted(id="flash"), module_of(GOOD))


def test_a_planted_misspelt_choice_or_default_is_caught() -> None:
    assert wrong_choices(planted(choices={"bakcend": ("auto", "flash")}))
    assert wrong_choices(planted(choices={"backend": ("flash", "auto")}))
    assert wrong_choices(planted(choices=MappingProxyType({})))
    assert wrong_choices(planted(choices={"backend": ("auto", "auto")}))


def test_a_planted_exclusion_is_caught() -> None:
    assert wrong_excludes(planted(excludes=frozenset({"autocast-bf61"})), techniques.ALL)
    assert wrong_excludes(planted(excludes=frozenset({"tf32"})), techniques.ALL)
    assert wrong_excludes(planted(excludes=frozenset({"sdpa"})), techniques.ALL)


def test_a_planted_promise_is_caught() -> None:
    assert wrong_promise(planted(numerics=Numerics.BITWISE))
    assert wrong_promise(planted(tolerance=0.0))
    assert wrong_promise(planted(cosine=1.0))


def test_a_planted_gate_is_caught() -> None:
    assert wrong_gate(planted(blocked=raising_gate), MACHINES)
    assert wrong_gate(planted(blocked=lambda hardware, plan: "no"), MACHINES)


def test_a_planted_technique_that_changes_nothing_is_caught() -> None:
    assert wrong_effect(planted(apply=apply_nothing, choices={}))
    assert wrong_effect(planted(apply=apply_none, choices={}))


def test_a_planted_read_back_that_repeats_the_request_is_caught() -> None:
    assert wrong_effect(planted(read_back=lambda session: "it is in effect"))


def test_a_planted_switch_that_stays_on_is_caught() -> None:
    left_on: list[Session] = []

    def apply(session: Session) -> int:
        left_on.append(session)
        session.undo["sdpa"] = int  # a way back that leads nowhere
        return 1

    stays = planted(
        stage=Stage.PROCESS,
        apply=apply,
        choices={},
        read_back=lambda session: "it is on" if session in left_on else None,
    )
    assert wrong_effect(stays) == ["it is still in effect after undo"]


def test_a_planted_import_of_torch_is_caught(tmp_path: Path) -> None:
    file = tmp_path / "planted.py"
    file.write_text("import torch\n")
    assert importing_torch([file]) == [str(file)]


def test_the_engine_and_the_script_host_are_the_only_hosts() -> None:
    assert {host for technique in techniques.ALL for host in technique.hosts} <= set(HostKind)
