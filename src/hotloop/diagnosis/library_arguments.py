"""The arguments of libraries that do what a technique does, and the changes that set them.

Looked up in the signatures of transformers 5.23, Lightning 2.6 and Accelerate 1.15 (2026-11). A
technique that a library has no argument for is written into the code instead.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import metadata
from typing import TYPE_CHECKING

from hotloop.diagnosis.script_options import Kind, typed_value
from hotloop.diagnosis.value_origin import Change
from hotloop.rules.support.syntax import keyword
from hotloop.techniques.micro_batch import ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotloop.core.plan import Value
    from hotloop.diagnosis.script_options import Option
    from hotloop.diagnosis.script_source import ScriptSource
    from hotloop.diagnosis.value_origin import Origins

__all__ = ["LIBRARIES", "TABLE", "library_changes"]

_Choice = dict[str, "Value"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """The calls that take a library's arguments."""

    packages: tuple[str, ...]
    names: tuple[str, ...]  # of the function, or the end of it after a star
    having: str = ""  # a keyword: other calls that have it are meant as well
    needs: tuple[str, ...] = ()  # methods, without a call of which the arguments do nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The arguments that do what a technique does."""

    values: Mapping[str, str] = field(
        default_factory=dict
    )  # Python text; "{count}" is the technique's choice
    clears: Mapping[str, str] = field(default_factory=dict)  # set only where another value stands
    only_over: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # values replaced
    # Whole numbers times a power of the choice "factor": the power, and the library's default.
    scales: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    when: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)  # choices covered
    before: int | None = None  # the first major version of the library that has no such argument
    since: int = 0  # the first major version that has it


LIBRARIES: Mapping[str, Library] = {
    "transformers": Library(packages=("transformers", "trl"), names=("*TrainingArguments",
        "SFTConfig", "DPOConfig", "RewardConfig", "GRPOConfig")),
    "lightning": Library(packages=("lightning", "pytorch_lightning"), names=("Trainer", "Fabric")),
    "accelerate": Library(packages=("accelerate",), names=("Accelerator",),
        needs=("prepare", "prepare_model")),
    "pretrained": Library(packages=("transformers",), names=("from_pretrained", "from_config"),
        having="attn_implementation"),
}  # fmt: skip

_FUSED = Arguments(
    values={"optim": "'adamw_torch_fused'"},
    only_over={"optim": ("'adamw_torch'", "'adamw_hf'", "'adamw_torch_fused'")},
)
_NO_WORKERS = Arguments(
    values={"dataloader_num_workers": "0"},
    clears={"dataloader_persistent_workers": "False", "dataloader_prefetch_factor": "None"},
    when={"count": (0,)},
)
_WORKERS = Arguments(
    values={"dataloader_num_workers": "{count}", "dataloader_persistent_workers": "True"},
    clears={"dataloader_prefetch_factor": "{ahead}"},
)
_MICRO_BATCH = Arguments(
    scales={"per_device_train_batch_size": (1, 8), "gradient_accumulation_steps": (-1, 1)}
)
# technique -> library -> its arguments; of several, the first that fits is used.
TABLE: Mapping[str, Mapping[str, tuple[Arguments, ...]]] = {
    "activation-checkpointing": {
        "transformers": (
            Arguments(values={"gradient_checkpointing": "False"}, when={"mode": ("off",)}),
            Arguments(values={"gradient_checkpointing": "True"}, when={"mode": ("full",)}),
        )
    },
    "autocast-bf16": {
        "transformers": (Arguments(values={"bf16": "True"}, clears={"fp16": "False"}),),
        "lightning": (Arguments(values={"precision": "'bf16-mixed'"}),),
        "accelerate": (Arguments(values={"mixed_precision": "'bf16'"}),),
    },
    "autocast-fp16": {
        "transformers": (Arguments(values={"fp16": "True"}, clears={"bf16": "False"}),),
        "lightning": (Arguments(values={"precision": "'16-mixed'"}),),
        "accelerate": (Arguments(values={"mixed_precision": "'fp16'"}),),
    },
    "compile": {
        "transformers": (Arguments(values={"torch_compile": "True"}),),
        "accelerate": (Arguments(values={"dynamo_backend": "'inductor'"}),),
    },
    "cudnn-benchmark": {"lightning": (Arguments(values={"benchmark": "True"}),)},
    "fused-adamw": {"transformers": (_FUSED,)},
    "length-bucketing": {
        "transformers": (
            Arguments(values={"train_sampling_strategy": "'group_by_length'"}, since=5),
            Arguments(values={"group_by_length": "True"}, before=5),
        )
    },
    "loader-workers": {"transformers": (_NO_WORKERS, _WORKERS)},
    "micro-batch": {"transformers": (_MICRO_BATCH,)},
    "sdpa": {
        "pretrained": (Arguments(values={"attn_implementation": "'sdpa'"}),),
    },
    "tf32": {"transformers": (Arguments(values={"tf32": "True"}),)},
}
# Options that scripts commonly have for a technique, as the field names them: names and value.
OPTIONS: Mapping[str, tuple[tuple[tuple[str, ...], str], ...]] = {
    "activation-checkpointing": ((("gradient_checkpointing", "activation_checkpointing"), "True"),),
    "autocast-bf16": (
        (("bf16", "use_bf16"), "True"),
        (("mixed_precision",), "'bf16'"),
        (("dtype", "amp_dtype", "autocast_dtype"), "'bfloat16'"),
    ),
    "compile": ((("compile", "torch_compile", "compile_model", "use_compile"), "True"),),
    "fused-adamw": ((("fused", "use_fused", "fused_adamw"), "True"),),
}
_DEFAULTS: Mapping[str, Value] = {  # of the techniques
    "count": 2,
    "ahead": 2,
    "mode": "full",
    "factor": "x2",
}


def library_changes(origins: Origins, id: str, choice: _Choice) -> list[Change] | str | None:
    """Return the changes that have a library or an option of the script do what a technique does.

    Return why they cannot be made, or None if the script has no such place: its code is edited.
    """
    filled: _Choice = {**_DEFAULTS, **choice}
    for library, entries in TABLE.get(id, {}).items():
        fitting = [one for one in entries if _fits(one, library, filled)]
        for arguments in fitting[:1]:
            made = _in_library(origins, LIBRARIES[library], arguments, filled)
            if made is not None:
                return made
    return _named_option(origins, id, filled)


def _fits(arguments: Arguments, library: str, choice: _Choice) -> bool:
    if any(choice.get(name) not in values for name, values in arguments.when.items()):
        return False
    major = _major(library)
    return arguments.since <= major and (arguments.before is None or major < arguments.before)


def _major(library: str) -> int:
    """Return the major version that is installed; that of the table if it is not."""
    try:
        return int(metadata.version(library).partition(".")[0])
    except (metadata.PackageNotFoundError, ValueError):
        return 5


def _in_library(
    origins: Origins, library: Library, arguments: Arguments, choice: _Choice
) -> list[Change] | str | None:
    calls = list(_calls(origins, library))
    if "optim" in arguments.values and _has_own_optimizer(origins):
        return None
    changes = list[Change]()
    for source, call in calls:
        present = {
            word.arg: origins.current(source, word.value) for word in call.keywords if word.arg
        }
        values = _wanted(arguments, present, choice)
        made = (
            values
            if isinstance(values, str)
            else origins.arguments(source, call, values, own_lines=True)
        )
        if isinstance(made, str):
            return made
        changes += made
    if calls:
        return changes or "the script asks for it already"
    if library is not LIBRARIES["transformers"] or not origins.options.takes_training_arguments:
        return None
    return _in_options(origins, arguments, choice)


def _wanted(
    arguments: Arguments, present: Mapping[str, str | None], choice: _Choice
) -> dict[str, str] | str:
    """Return the keywords that a call shall have, or why it must be left alone."""
    for name, replaced in arguments.only_over.items():
        if name in present and present[name] not in replaced:
            return f"it trains with {name}={present[name] or 'a value that is computed'}"
    scaled = _scaled(arguments, present, choice)
    if isinstance(scaled, str):
        return scaled
    values = {name: text.format(**choice) for name, text in arguments.values.items()} | scaled
    cleared = {name: text.format(**choice) for name, text in arguments.clears.items()}
    return values | {
        name: text
        for name, text in cleared.items()
        if name in present and present[name] not in (text, "None")
    }


def _scaled(
    arguments: Arguments, present: Mapping[str, str | None], choice: _Choice
) -> dict[str, str] | str:
    """Return the numbers that change by the factor, or why they cannot."""
    scaled = dict[str, str]()
    for name, (power, default) in arguments.scales.items():
        text = present.get(name, str(default))
        if text is None or not text.isdigit():
            return f"it trains with {name}={text or 'a value that is computed'}"
        number = int(text) * ratio(str(choice["factor"])) ** power
        if number.denominator > 1:
            return f"{name}={text} cannot be divided by {1 / Fraction(number, int(text))}"
        scaled[name] = str(number)
    return scaled


def _in_options(
    origins: Origins, arguments: Arguments, choice: _Choice
) -> list[Change] | str | None:
    """Set the fields of TrainingArguments that a parser takes from the command line."""
    options = origins.options
    values = {name: text.format(**choice) for name, text in arguments.values.items()}
    texts = values | {name: text.format(**choice) for name, text in arguments.clears.items()}
    texts |= {name: str(default) for name, (_, default) in arguments.scales.items()}
    fields = {name: options.field(name, text) for name, text in texts.items()}
    typed = {name: typed_value(one, options.args) for name, one in fields.items()}
    present = {name: value for name, value in typed.items() if value is not None}
    wanted = _wanted(arguments, present, choice)
    if isinstance(wanted, str):
        return wanted
    return _set_all(origins, {n: (options.get(n) or fields[n], v) for n, v in wanted.items()})


def _set_all(origins: Origins, wanted: Mapping[str, tuple[Option, str]]) -> list[Change] | str:
    changes = list[Change]()
    for option, value in wanted.values():
        if typed_value(option, origins.options.args) == value:
            continue
        made = origins.setting(option, value)
        if isinstance(made, str):
            return made
        changes += made
    return changes or "the command line asks for it already"


def _named_option(origins: Origins, id: str, choice: _Choice) -> list[Change] | None:
    """Set an option of the script's own that is named after the technique."""
    if choice.get("mode") == "off":
        return None
    for names, value in OPTIONS.get(id, ()):
        for option in filter(None, map(origins.options.get, names)):
            wants_switch = value == "True"
            is_switch = option.kind in (Kind.ON, Kind.EITHER, Kind.BOOLEAN)
            takes = is_switch if wants_switch else option.kind is Kind.VALUE
            if not takes or (option.choices and ast.literal_eval(value) not in option.choices):
                continue
            made = _set_all(origins, {option.name: (option, value)})
            if not isinstance(made, str):
                return made
    return None


def _calls(origins: Origins, library: Library) -> Iterator[tuple[ScriptSource, ast.Call]]:
    """Yield the calls that take a library's arguments and unpack none."""
    called = {getattr(call.func, "attr", "") for _, call in origins.project.calls}
    if library.needs and called.isdisjoint(library.needs):
        return
    for source, call in origins.project.calls:
        origin, _, name = source.module.name(call).rpartition(".")
        head = origin.partition(".")[0]
        named = any(name == n or (n[0] == "*" and name.endswith(n[1:])) for n in library.names)
        unpacks = any(word.arg is None for word in call.keywords)
        if library.having and keyword(call, library.having) is not None:
            yield source, call
        elif named and head in library.packages and not unpacks:
            if name.startswith("from_") and "Model" not in origin:
                continue  # tokenizers and configurations
            yield source, call


def _has_own_optimizer(origins: Origins) -> bool:
    """Whether a trainer is given an optimizer that the script builds."""
    calls: Sequence[ast.Call] = [call for _, call in origins.project.calls]
    return any(keyword(call, "optimizers") is not None for call in calls)
