"""The contract every technique keeps. A new one is held to it by being listed in ALL.

Each technique has a golden file, tests/golden/techniques/<its file>.py, with its EXAMPLES: where it
is refused, and on what it is tried. The checks are functions that return what is wrong, so that
planted bad techniques can be fed to them at the end of this file. What a technique does to the
numbers is test_parity.py's business. docs/contributing.md says how to add one.
"""

import gc
import inspect
import itertools
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from tests.golden import group_of_one
from tests.golden.group_of_one import no_group_is_left  # noqa: F401 - a fixture
from tests.golden.jobs import session_of
from tests.golden.machines import MACHINES
from tests.golden.outside import MACHINE
from tests.golden.recordings import CalledAgain
from tests.golden.techniques import (
    FOLDER,
    Examples,
    choices_of,
    examples_of,
    file_of,
    load,
    text_of,
)
from tests.paths import ROOT

from hotloop import techniques
from hotloop.core.errors import PlanError
from hotloop.core.hardware import Hardware
from hotloop.core.plan import Plan, Use, Value
from hotloop.core.sharding_ids import SHARING
from hotloop.diagnosis.apply_techniques import AppliedTechniques
from hotloop.engine.graphs.recorded_steps import RecordedSteps
from hotloop.observe.observer import ScriptObserver
from hotloop.observe.when_to_stop import StopLimits
from hotloop.session.session import ScriptSession, Session, TechniqueTarget
from hotloop.techniques.base import HEADINGS, HostKind, Numerics, Stage, Technique, anywhere

# Dynamo looks at `.grad` of tensors inside the graph; where warnings are errors it trips over that.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
every_technique = pytest.mark.parametrize("technique", techniques.ALL, ids=lambda t: t.id)
OF_THE_ENGINE = [t for t in techniques.ALL if HostKind.ENGINE in t.hosts]
OF_SCRIPTS = [t for t in techniques.ALL if HostKind.SCRIPT in t.hosts]
NOT_MEASURED = "not measured here: needs a CUDA GPU"
UNDO = "set session.undo[its id] to a function that takes back what `apply` did"


# The checks: each returns what is wrong, a sentence each that says what to write.


def wrong_list(known: Sequence[Technique]) -> list[str]:
    ids = [technique.id for technique in known]
    wrong = [] if ids == sorted(ids) else ["the ids in techniques.ALL are not sorted: sort them"]
    return wrong + [
        f"{id} stands twice in techniques.ALL: each technique needs an id of its own"
        for id in sorted(set(ids))
        if ids.count(id) > 1
    ]


def wrong_page(page: str) -> list[str]:
    first, _, body = page.partition("\n\n")
    before, *rest = re.split(r"^(\w[\w ]*:)", body, flags=re.MULTILINE)
    found = dict(zip(rest[::2], rest[1::2], strict=True))
    sentence = re.fullmatch(r"\S.+\.", first, flags=re.DOTALL) and not before
    wrong = []
    if not sentence:
        wrong.append(
            "its docstring must begin with one sentence, which ends with a full stop, then an "
            "empty line, then the headings"
        )
    if tuple(found) != HEADINGS:
        wrong.append(
            f"its docstring must have the headings {' '.join(HEADINGS)} in this order, each at "
            f"the beginning of a line; it has {' '.join(found) or 'none'}"
        )
    wrong += [
        f"there is nothing behind {heading} in its docstring: say it there"
        for heading, text in found.items()
        if not text.split()
    ]
    if "https://" not in found.get("Source:", ""):
        wrong.append("Source: in its docstring needs a link, https://..., to where it comes from")
    return wrong


def wrong_measured(page: str) -> list[str]:
    measured = page.partition("Measured:")[2].partition("Source:")[0]
    if re.search(r"\d", measured) or NOT_MEASURED in measured:
        return []
    return [
        "Measured: in its docstring must give a number and the machine that it was measured on "
        "(a row in benchmarks/techniques.py measures it on this CPU); only what no CPU can show "
        f'may say "{NOT_MEASURED}"'
    ]


def wrong_file(technique: Technique, module: Any) -> list[str]:
    name, want = Path(module.__file__).name, f"{technique.id.replace('-', '_')}.py"
    wrong = []
    if module.TECHNIQUE is not technique:
        wrong.append(
            f"TECHNIQUE of {name} is not the one that techniques.ALL has as {technique.id}"
        )
    if name != want:
        wrong.append(f"{technique.id} stands in {name}: name the file {want}")
    if technique.page != module.__doc__:
        wrong.append("its page is not the docstring of its file: define `apply` there")
    return wrong


def wrong_choices(technique: Technique) -> list[str]:
    keywords = {
        p.name: p.default
        for p in inspect.signature(technique.apply).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    }
    stated = {name: values[0] for name, values in technique.choices.items()}
    wrong = []
    if keywords != stated:
        wrong.append(
            f"the keywords of `apply` with their defaults, {keywords}, must be its choices with "
            f"their first values, {stated}"
        )
    for name, values in technique.choices.items():
        if len(set(values)) != len(values) or len({type(value) for value in values}) != 1:
            wrong.append(f"the values of its choice {name} must be distinct and of one type")
    return wrong


def wrong_excludes(technique: Technique, known: Sequence[Technique]) -> list[str]:
    by_id = {other.id: other for other in known}
    wrong = [
        f"it excludes {id}, and no technique is called so"
        for id in technique.excludes - by_id.keys()
    ]
    for other in map(by_id.get, technique.excludes & by_id.keys()):
        assert other is not None
        if technique.id not in other.excludes:
            wrong.append(f"it excludes {other.id}: add {technique.id} to the excludes of that")
    return wrong + ["it excludes itself"] * (technique.id in technique.excludes)


def wrong_promise(technique: Technique) -> list[str]:
    room = technique.tolerance > 0 and 0 < technique.cosine < 1
    if technique.numerics is Numerics.ROUNDING and not room:
        return [
            "a technique of Numerics.ROUNDING needs a tolerance above 0 and a cosine below 1: ten "
            "times what benchmarks/rounding.py finds"
        ]
    exact = (technique.tolerance, technique.cosine) == (0.0, 1.0)
    if technique.numerics is not Numerics.ROUNDING and not exact:
        return ["tolerance and cosine are for Numerics.ROUNDING only: leave them out"]
    return []


def wrong_gate(technique: Technique, machines: Mapping[str, Hardware]) -> list[str]:
    names = list(technique.choices)
    every_choice = [
        dict(zip(names, values, strict=True))
        for values in itertools.product(*technique.choices.values())
    ]
    wrong = []
    for (name, hardware), choice in itertools.product(machines.items(), every_choice):
        plan = Plan(micro_batch=1).plus(technique.id, **choice)
        try:
            why = technique.blocked(hardware, plan)
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            wrong.append(f"`blocked` fails on {name!r} with {choice}: {error!r}")
        else:
            if why is not None and len(why.split()) < 4:
                wrong.append(
                    f"`blocked` says {why!r} on {name!r} with {choice}: it must say why, in four "
                    "words or more"
                )
    return wrong


def wrong_machines(technique: Technique, examples: Examples) -> list[str]:
    """Ask the gate on each machine, and compare with where it is said to be refused."""
    wrong = []
    for choice in choices_of(technique):
        text, plan = text_of(choice), examples.beside.plus(technique.id, **choice)
        table = f"blocked_with[{text!r}]" if text in examples.blocked_with else "blocked_on"
        expected = examples.blocked_with.get(text, examples.blocked_on)
        for name, hardware in MACHINES.items():
            why = technique.blocked(hardware, plan)
            use = Use.of(technique.id, **choice)
            if why is not None and name not in expected:
                wrong.append(
                    f"`blocked` refuses {use} on {name!r} ({why}), which is not in {table}: add it "
                    "there, or let it through"
                )
            if why is None and name in expected:
                wrong.append(
                    f"`blocked` lets {use} through on {name!r}, which is in {table}: take it out "
                    "there, or refuse it"
                )
    return wrong


def wrong_words(said: str | None, says: str) -> list[str]:
    """Hold what is read back to at least two words, and to what was expected."""
    if said is None or len(said.split()) < 2:
        return [f"after it was applied `read_back` must say what is in effect; it says {said!r}"]
    if not re.match(says, said):
        return [f"after it was applied `read_back` says {said!r}, which `says` does not match"]
    return []


def wrong_effect(technique: Technique, examples: Examples) -> list[str]:
    """Apply it to a session on this CPU, whatever its gate says, and read it back."""
    if technique.id in SHARING:
        group_of_one.join()
    session = session_of(examples.job)
    if technique.stage >= Stage.OPTIMIZER:
        session.optimizer = session.job.optimizer(session.model)
    leaves = technique.stage in (Stage.PROCESS, Stage.COMPILE)
    wrong = []
    try:
        if (before := technique.read_back(session)) is not None:
            wrong.append(f"before it is applied `read_back` must return None; it says {before!r}")
        changed = technique.apply(session, **examples.choice)
        if type(changed) is not int or changed < 1:
            wrong.append(
                f"`apply` must return how many things it changed, 1 or more; it returned "
                f"{changed!r} with {dict(examples.choice)}. Where the default changes nothing on "
                "this CPU, give `choice`, `job` or `apply`"
            )
        if technique.stage is Stage.COMPILE:
            first_call(session)
        wrong += wrong_words(technique.read_back(session), examples.says)
        if leaves and not session.undo:
            wrong.append(f"its stage is {technique.stage.name}, so `apply` must {UNDO}")
    finally:
        left = left_by(technique, session)
    return wrong + [left] * bool(left)


def left_by(technique: Technique, session: TechniqueTarget) -> str:
    """Undo everything; return what is wrong where a switch of the process is still on."""
    for id in list(session.undo):
        session.undo.pop(id)()
    leaves = technique.stage in (Stage.PROCESS, Stage.COMPILE)
    still = technique.read_back(session) if leaves else None
    return f"after its undo `read_back` must return None; it says {still!r}" if still else ""


def wrong_in_a_script(technique: Technique, examples: Examples) -> list[str]:
    """Put it into a script on this CPU, whatever its gate says; what it says must not be empty."""
    choice = examples.choice if (c := examples.choice_in_script) is None else c
    sessions: list[TechniqueTarget] = []

    def apply(session: ScriptSession, **choice: Value) -> int:
        sessions.append(session)
        return technique.apply(session, **choice)

    put_in = AppliedTechniques(
        Plan(micro_batch=1, techniques=(Use.of(technique.id, **choice),)),
        {},
        hardware=MACHINE,
        known=[replace(technique, apply=apply, blocked=anywhere)],
    )
    observer = ScriptObserver(StopLimits(full=True, probing=False))
    put_in.join(observer)
    observer.start()
    try:
        examples.script()
        (effect,) = put_in.effects()
    finally:
        observer.finish()
        left = [words for session in sessions if (words := left_by(technique, session))]
    wrong = [f"a fault: {observer.hooks.fault}"] * (observer.hooks.fault is not None) + left
    if effect.word == "in effect":
        return wrong + wrong_words(effect.how, examples.says)
    called = examples.script.__name__
    return [
        *wrong,
        f"in {called}() it must be in effect, and is {effect.word!r}: {effect.how}. Where that "
        "script lacks what it changes, give `script`, a function that trains in a few lines",
    ]


def first_call(session: Session) -> None:
    batch = session.job.train.batch(0, 0, 2)
    session.forward(batch.tensors).backward()
    if session.stepping.graphs:  # a GPU would record it
        session.stepping.replay = RecordedSteps(session, CalledAgain())


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


def module_of(technique: Technique) -> Any:
    return sys.modules[technique.apply.__module__]


def source_of(technique: Technique) -> str:
    return str(Path(module_of(technique).__file__).relative_to(ROOT))


def fail(wrong: Sequence[str], *files: str) -> None:
    """Fail with the files that it is about and a sentence a line; pass where there is none."""
    if wrong:
        pytest.fail("\n- ".join((" and ".join(files), *wrong)), pytrace=False)


# The contract.


def test_the_list_is_sorted_and_unique() -> None:
    fail(wrong_list(techniques.ALL), "src/hotloop/techniques/__init__.py")


def test_every_file_of_the_folder_is_listed() -> None:
    folder = Path(techniques.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {
        "__init__",
        "base",
        "script_gate",
        "selection",
    }
    listed = {technique.id.replace("-", "_") for technique in techniques.ALL}
    fail(
        [f"import {name} there and add {name}.TECHNIQUE to ALL" for name in sorted(files - listed)],
        "src/hotloop/techniques/__init__.py",
    )
    assert files == listed


def test_every_golden_file_is_that_of_a_technique() -> None:
    files = {path.stem for path in (ROOT / FOLDER).glob("*.py")} - {"__init__"}
    assert files <= {Path(file_of(technique)).stem for technique in techniques.ALL}


@every_technique
def test_its_golden_file_is_there_and_complete(technique: Technique) -> None:
    assert isinstance(examples_of(technique), Examples)


def test_no_file_imports_torch() -> None:
    fail(
        [
            f"{file} imports torch at its top: import it in the functions that need it"
            for file in importing_torch([Path(module_of(t).__file__) for t in techniques.ALL])
        ],
        "src/hotloop/techniques",
    )


@every_technique
def test_its_file_is_its_page(technique: Technique) -> None:
    wrong = wrong_file(technique, module_of(technique)) + wrong_page(technique.page)
    fail(wrong, source_of(technique))


@every_technique
def test_its_page_says_what_was_measured(technique: Technique) -> None:
    fail(wrong_measured(technique.page), source_of(technique))


@every_technique
def test_its_choices_are_the_keywords_of_apply(technique: Technique) -> None:
    fail(wrong_choices(technique), source_of(technique))


@every_technique
def test_its_exclusions_are_real_and_mutual(technique: Technique) -> None:
    fail(wrong_excludes(technique, techniques.ALL), source_of(technique))


@every_technique
def test_its_promise_is_complete(technique: Technique) -> None:
    fail(wrong_promise(technique), source_of(technique))
    assert technique.hosts, "it needs a host: HostKind.ENGINE, HostKind.SCRIPT or both"
    assert technique.nothing, "`nothing` must say why `apply` may find nothing to change"


@every_technique
def test_its_gate_answers_everywhere(technique: Technique) -> None:
    fail(wrong_gate(technique, MACHINES), source_of(technique))


@every_technique
def test_what_cannot_work_where(technique: Technique, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = examples_of(technique)
    examples.stand_in(monkeypatch)
    fail(wrong_machines(technique, examples), source_of(technique), file_of(technique))


@pytest.mark.parametrize("technique", OF_THE_ENGINE, ids=lambda t: t.id)
def test_it_takes_effect_and_says_so(technique: Technique, monkeypatch: pytest.MonkeyPatch) -> None:
    examples, files = examples_of(technique), (source_of(technique), file_of(technique))
    examples.stand_in(monkeypatch)
    technique = replace(technique, apply=examples.apply or technique.apply)
    fail(wrong_effect(technique, examples), *files)


@pytest.mark.parametrize("technique", OF_SCRIPTS, ids=lambda t: t.id)
def test_in_a_script_it_takes_effect_and_says_so(
    technique: Technique, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples, files = examples_of(technique), (source_of(technique), file_of(technique))
    examples.stand_in(monkeypatch)
    technique = replace(technique, apply=examples.apply or technique.apply)
    before, frozen = switches(), gc.get_freeze_count()
    fail(wrong_in_a_script(technique, examples), *files)
    left = {name: value for name, value in switches().items() if value != before[name]}
    assert not left, f"after the script {left}, before it {before}: `apply` must {UNDO}"
    # What is frozen may go meanwhile; nothing more may be frozen.
    assert gc.get_freeze_count() <= frozen, f"objects are still frozen: `apply` must {UNDO}"


def switches() -> dict[str, object]:
    """Return what a technique may leave behind in this process."""
    return {
        "torch.get_num_threads()": torch.get_num_threads(),
        "torch.get_float32_matmul_precision()": torch.get_float32_matmul_precision(),
        "torch.backends.cudnn.benchmark": torch.backends.cudnn.benchmark,
    }


def test_an_unknown_id_is_answered_with_the_nearest() -> None:
    with pytest.raises(PlanError, match="did you mean fused-adamw"):
        techniques.get("fused-adam")


@pytest.mark.parametrize("id", ["fused-adamw", "lagged-loss-read", "tf32", "threads"])
def test_what_is_there_already_is_not_needed(id: str) -> None:
    session, technique = session_of(), techniques.get(id)
    session.optimizer = session.job.optimizer(session.model)
    choice = examples_of(technique).choice
    try:
        assert technique.apply(session, **choice) > 0
        assert technique.apply(session, **choice) == 0
    finally:
        for undo in session.undo.values():
            undo()


def test_the_engine_and_the_script_host_are_the_only_hosts() -> None:
    assert {host for technique in techniques.ALL for host in technique.hosts} <= set(HostKind)


# Planted: what the checks above are there to find.

GOOD = techniques.get("sdpa")
ITS = examples_of(GOOD)


def apply_nothing(session: Session) -> int:
    del session
    return 1


def apply_none(session: Session) -> int:
    del session
    return 0


def raising_gate(hardware: Hardware, plan: Plan) -> str | None:
    del plan
    major, _ = hardware.capability  # type: ignore[misc] # None on a CPU: the planted fault
    return None if major > 7 else "needs a newer GPU than this one"


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
    assert wrong_page(GOOD.page) == []
    assert wrong_page(page)


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


def test_a_planted_measurement_without_a_number_is_caught() -> None:
    page = re.sub(r"Measured:.*?(?=Source:)", "Measured: it is fast.\n", GOOD.page, flags=re.DOTALL)
    assert wrong_measured(page)
    assert not wrong_measured(page.replace("it is fast", NOT_MEASURED))


def test_a_planted_machine_too_many_or_too_few_is_caught() -> None:
    assert not wrong_machines(GOOD, ITS)
    (wrong,) = wrong_machines(planted(choices={}), replace(ITS, blocked_on={"t4"}))
    assert "lets sdpa through on 't4', which is in blocked_on" in wrong
    flash = {**ITS.blocked_with, "backend=flash": {"t4", "gtx 1080", "mps"}}
    (wrong,) = wrong_machines(GOOD, replace(ITS, blocked_with=flash))
    assert "refuses sdpa(backend=flash) on 'unknown GPU'" in wrong


def test_planted_words_that_were_not_expected_are_caught() -> None:
    assert wrong_effect(GOOD, replace(ITS, says="naive"))
    assert wrong_in_a_script(GOOD, replace(ITS, says="naive"))


def test_a_planted_script_without_what_it_changes_is_caught() -> None:
    (wrong,) = wrong_in_a_script(GOOD, replace(ITS, script=no_training))
    assert wrong.startswith("in no_training() it must be in effect, and is 'refused'")


def no_training() -> None:
    """Do nothing."""


def test_a_planted_technique_without_a_golden_file_is_told_what_to_write() -> None:
    wrong = load(planted(id="not-there"))
    assert isinstance(wrong, str)
    assert wrong.startswith("not-there has no golden file: write tests/golden/techniques/not_there")
    assert "EXAMPLES = Examples(blocked_on=" in wrong


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Examples(says='x')", "missing 1 required keyword-only argument: 'blocked_on'"),
        ("Examples(blocked_on=set())", "missing 1 required keyword-only argument: 'says'"),
        ("Examples(blocked_on={'t5'}, says='x')", "no machine is called t5"),
        ("Examples(blocked_on=set(), says='')", "says must not be empty"),
        ("Examples(blocked_on=set(), says='x', blocks=1)", "unexpected keyword argument 'blocks'"),
        ("Examples(blocked_on=set(), says='x', job_with={'a=b': None})", "a=b is not a choice of"),
        (None, "must define EXAMPLES"),
    ],
)
def test_a_planted_golden_file_that_is_incomplete_is_told_what_to_write(
    text: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def imported(name: str) -> Any:
        return object() if text is None else type("Golden", (), {"EXAMPLES": eval(text)})

    monkeypatch.setattr("tests.golden.techniques.import_module", imported)
    wrong = load(GOOD)
    assert isinstance(wrong, str)
    assert words in wrong
    assert wrong.startswith("tests/golden/techniques/sdpa.py")


def test_a_planted_technique_that_changes_nothing_is_caught() -> None:
    assert wrong_effect(planted(apply=apply_nothing, choices={}), ITS)
    assert wrong_effect(planted(apply=apply_none, choices={}), ITS)


def test_a_planted_read_back_that_repeats_the_request_is_caught() -> None:
    assert wrong_effect(
        planted(read_back=lambda session: "it is in effect"), replace(ITS, says="it")
    )


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
    (wrong,) = wrong_effect(stays, replace(ITS, says="it is on"))
    assert wrong.startswith("after its undo")


def test_a_planted_import_of_torch_is_caught(tmp_path: Path) -> None:
    file = tmp_path / "planted.py"
    file.write_text("import torch\n")
    assert importing_torch([file]) == [str(file)]
