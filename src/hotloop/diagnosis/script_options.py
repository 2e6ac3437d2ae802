"""The options of a script's command line: which there are, what they are now, how to set them.

argparse and transformers' HfArgumentParser are read; nothing is run.
"""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from hotloop.rules.support.syntax import keyword

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotloop.diagnosis.project_source import Project
    from hotloop.diagnosis.script_source import ScriptSource, SourceEdit

__all__ = ["Kind", "Option", "OptionValue", "Options", "typed_value"]

_HF_PARSERS = ("HfArgumentParser", "TrlParser")
_HF_CLASSES = ("TrainingArguments", "SFTConfig", "DPOConfig", "RewardConfig", "GRPOConfig")
_NEGATION = "no-"
_PARSES = ("parse_args", "parse_known_args", "parse_args_into_dataclasses", "parse_args_and_config")


class Kind(Enum):
    """What an option takes on the command line."""

    VALUE = "a value"
    ON = "nothing; it sets True"
    OFF = "nothing; it sets False"
    EITHER = "nothing; its negation sets False"
    BOOLEAN = "True, False, or nothing for True"  # of HfArgumentParser


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of the script's command line."""

    name: str  # of the attribute that it sets
    flags: tuple[str, ...]  # as they may be typed; the first is preferred
    kind: Kind
    default: str | None = None  # Python text, None: unknown
    choices: tuple[str, ...] = ()
    source: ScriptSource | None = None  # where the default is written; None: in a library
    node: ast.AST | None = None  # the call or the annotated field that has the default

    @property
    def flag(self) -> str:
        """The flag as a message names it."""
        return self.flags[0]

    @property
    def negated(self) -> str:
        """The flag that sets False, as argparse.BooleanOptionalAction spells it."""
        return f"--{_NEGATION}{self.flag[2:]}"


@dataclass(frozen=True, slots=True)
class OptionValue:
    """An option with the value that it shall have, as Python text."""

    option: Option
    value: str

    def why_not(self, args: Sequence[str]) -> str | None:
        """Return why the command line cannot say so, or None."""
        option, value = self.option, _plain(self.value)
        if option.choices and value not in option.choices:
            return f"{option.flag} takes {', '.join(option.choices)}, and not {value}"
        if option.kind is Kind.VALUE and value == "None":
            return f"{option.flag} cannot be set to None on a command line"
        wrong = {Kind.ON: "False", Kind.OFF: "True"}.get(option.kind)
        if value == wrong and option.default == wrong:
            return None
        if value == wrong and not any(_is(word, option) for word in args):
            return f"{option.flag} has no opposite, and its default is {option.default}"
        return None

    def put_into(self, args: Sequence[str]) -> tuple[str, ...]:
        """Return the command line with the option set, where it stands now or at the end."""
        option, value = self.option, _plain(self.value)
        kept, place = _without(args, option)
        if place is None:  # what follows -- is not an option
            place = kept.index("--") if "--" in kept else len(kept)
        words = {
            Kind.VALUE: (option.flag, value),
            Kind.ON: (option.flag,) if value == "True" else (),
            Kind.OFF: (option.flag,) if value == "False" else (),
            Kind.EITHER: (option.flags[0] if value == "True" else option.negated,),
            Kind.BOOLEAN: (option.flag,) if value == "True" else (option.flag, value),
        }[option.kind]
        return (*kept[:place], *words, *kept[place:])


def typed_value(option: Option, args: Sequence[str]) -> str | None:
    """Return the value of an option as Python text: as typed, else its default; None: unknown."""
    value = option.default
    for number, word in enumerate(args):
        if word == "--":
            break
        if not _is(word, option):
            continue
        _, equals, text = word.partition("=")
        following = args[number + 1] if number + 1 < len(args) else ""
        if equals:
            value = _quoted(text)
        elif option.kind is Kind.VALUE:
            value = _quoted(following)
        elif option.kind is Kind.BOOLEAN and following.lower() in ("true", "false"):
            value = following.capitalize()
        else:
            value = str(not (word == option.negated or option.kind is Kind.OFF))
    return value


def _is(word: str, option: Option) -> bool:
    name = word.partition("=")[0]
    no = option.negated if option.kind is Kind.EITHER else None
    return name in option.flags or (no is not None and name == no)


def _without(args: Sequence[str], option: Option) -> tuple[list[str], int | None]:
    """Return the command line without an option, and the place of its first mention."""
    kept, place, words = list[str](), None, list(args)
    while words:
        word = words.pop(0)
        if word == "--":
            return [*kept, word, *words], place
        if not _is(word, option):
            kept.append(word)
            continue
        place = len(kept) if place is None else place
        takes = option.kind is Kind.VALUE or (
            option.kind is Kind.BOOLEAN and bool(words) and words[0].lower() in ("true", "false")
        )
        if takes and "=" not in word and words:
            words.pop(0)
    return kept, place


def _plain(value: str) -> str:
    """Return Python text as a word of a command line: without the quotes of a string."""
    parsed = ast.literal_eval(value)
    return parsed if isinstance(parsed, str) else str(parsed)


def _quoted(word: str) -> str:
    """Return a word of a command line as Python text: a number as it is, else a string."""
    try:
        parsed = ast.literal_eval(word)
    except (SyntaxError, ValueError):
        parsed = None
    return word if isinstance(parsed, int | float | bool) else repr(word)


class Options:
    """All options of a project's command line, and the command line as it is."""

    def __init__(self, project: Project, args: Sequence[str]) -> None:
        self._project, self.args = project, tuple(args)

    def get(self, name: str) -> Option | None:
        """Return the option that sets an attribute, or None if there is none or more than one."""
        found = {option.flags: option for option in self._all if option.name == name}
        return next(iter(found.values())) if len(found) == 1 else None

    @cached_property
    def _all(self) -> list[Option]:
        return [*_argparse(self._project), *self._fields()]

    @cached_property
    def parsers(self) -> list[tuple[ScriptSource, ast.Call]]:
        """The calls that build a parser of dataclasses."""
        return [
            (source, call)
            for source, call in self._project.calls
            if source.module.name(call).rpartition(".")[2] in _HF_PARSERS and call.args
        ]

    @cached_property
    def takes_training_arguments(self) -> bool:
        """Whether a parser of dataclasses has transformers' TrainingArguments, or a subclass."""
        return any(self._is_hf(source, name) for source, name in self._dataclasses())

    def field(self, name: str, value: str) -> Option:
        """Return the option of a field of TrainingArguments, which takes such a value."""
        kind = Kind.BOOLEAN if value in ("True", "False") else Kind.VALUE
        flags = (f"--{name}", f"--{name.replace('_', '-')}")
        return Option(name=name, flags=flags, kind=kind)

    @property
    def why_fixed(self) -> str | None:
        """Why no option can be typed: the script parses a file or a list of its own; else None."""
        config = self.args[0] if len(self.args) == 1 else ""
        if self.parsers and config.endswith((".json", ".yaml", ".yml")):
            return f"the options are read from {config}, which takes it as a key"
        return None

    @cached_property
    def ignores_command_line(self) -> bool:
        """Whether the script parses words of its own instead of the command line."""
        parses = [
            call for _, call in self._project.calls if getattr(call.func, "attr", "") in _PARSES
        ]
        return bool(parses) and all(call.args or keyword(call, "args") for call in parses)

    def default_edits(self, setting: OptionValue) -> list[SourceEdit] | str:
        """Return the edits that make a value the default of an option, or why there are none."""
        option, value = setting.option, setting.value
        source, node = option.source, option.node
        if source is None or node is None:
            return self._set_defaults(setting)
        if isinstance(node, ast.Call):
            return source.keywords(node, default=source.quoted(value))
        assert isinstance(node, ast.AnnAssign)
        if isinstance(node.value, ast.Call):
            return source.keywords(node.value, default=source.quoted(value))
        if node.value is None:
            return f"the field {option.name} has no default"
        return [source.replacing(node.value, source.quoted(value))]

    def _set_defaults(self, setting: OptionValue) -> list[SourceEdit] | str:
        """Return the edits of a default that is written in a library."""
        name = setting.option.name
        for source, call in self.parsers:
            for before, after in _neighbours(source.tree):
                if isinstance(before, ast.Assign) and before.value is call:
                    target = before.targets[0]
                    value = source.quoted(setting.value)
                    line = f"{ast.unparse(target)}.set_defaults({name}={value})"
                    edit = source.before(after, line)
                    return [edit] if edit else f"put {line} after the parser is built"
        return f"call set_defaults({name}={setting.value}) of the parser"

    def _dataclasses(self) -> Iterator[tuple[ScriptSource, str]]:
        for source, call in self.parsers:
            listed = call.args[0]
            elements = listed.elts if isinstance(listed, ast.Tuple | ast.List) else [listed]
            for element in elements:
                yield source, source.module.name(element)

    def _is_hf(self, source: ScriptSource, name: str) -> bool:
        last = name.rpartition(".")[2]
        if last in self._project.classes:
            home, node = self._project.classes[last]
            return any(self._is_hf(home, home.module.name(base)) for base in node.bases)
        return last.endswith(_HF_CLASSES)

    def _fields(self) -> Iterator[Option]:
        """Yield the options of the project's own dataclasses that a parser is built of."""
        for _, name in self._dataclasses():
            found = self._project.classes.get(name.rpartition(".")[2])
            for node in found[1].body if found else []:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    assert found is not None
                    yield self._own_field(found[0], node, node.target.id)

    def _own_field(self, source: ScriptSource, node: ast.AnnAssign, name: str) -> Option:
        value = node.value
        if isinstance(value, ast.Call):
            value = keyword(value, "default")
        text = None if value is None else ast.unparse(value)
        boolean = "bool" in ast.unparse(node.annotation)
        option = self.field(name, "True" if boolean else "")
        return Option(
            name=name, flags=option.flags, kind=option.kind, default=text, source=source, node=node
        )


def _argparse(project: Project) -> Iterator[Option]:
    """Yield the options that calls of add_argument define."""
    for source, call in project.calls:
        if getattr(call.func, "attr", "") != "add_argument":
            continue
        words = [str(arg.value) for arg in call.args if isinstance(arg, ast.Constant)]
        flags = sorted((f for f in words if f.startswith("-")), key=lambda f: f[:2] != "--")
        if not flags or any(word.arg is None for word in call.keywords):
            continue
        action, dest = keyword(call, "action"), keyword(call, "dest")
        kind = _kind(action)
        if kind is None or keyword(call, "nargs") is not None:
            continue
        name = dest.value if isinstance(dest, ast.Constant) else flags[0].lstrip("-")
        default, choices = keyword(call, "default"), keyword(call, "choices")
        unset = {Kind.ON: "False", Kind.OFF: "True"}.get(kind, "None")
        listed = choices.elts if isinstance(choices, ast.List | ast.Tuple) else []
        yield Option(
            name=str(name).replace("-", "_"),
            flags=tuple(flags),
            kind=kind,
            default=unset if default is None else ast.unparse(default),
            choices=tuple(str(one.value) for one in listed if isinstance(one, ast.Constant)),
            source=source,
            node=call,
        )


def _kind(action: ast.expr | None) -> Kind | None:
    if action is None:
        return Kind.VALUE
    name = action.value if isinstance(action, ast.Constant) else ast.unparse(action)
    kinds = {"store": Kind.VALUE, "store_true": Kind.ON, "store_false": Kind.OFF}
    return Kind.EITHER if str(name).endswith("BooleanOptionalAction") else kinds.get(str(name))


def _neighbours(tree: ast.AST) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """Yield each statement with the one that follows it in the same block."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield from itertools.pairwise(block)
