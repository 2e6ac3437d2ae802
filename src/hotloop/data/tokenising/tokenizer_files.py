"""A tokenizer as it lies in a model folder or on the hub: its file, special tokens and template.

Only the package `tokenizers` is needed to use one; transformers turns a slow tokenizer into a fast
one where a folder has no tokenizer.json, and huggingface_hub fetches what an id names.
"""

from __future__ import annotations

import importlib.util
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.digest import digest
from hotloop.core.errors import DataError, DeviceError, did_you_mean
from hotloop.core.storage.manifest import read_json
from hotloop.data.readers.advised_options import said
from hotloop.data.tokenising.chat_templates import CHATML, Template

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotloop.data.readers.advised_options import Said

__all__ = ["TokenizerSpec", "find_tokenizer", "no_panic"]

_FILES: Final = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
)
_NAMED: Final = ("bos_token", "eos_token", "unk_token", "sep_token", "cls_token", "pad_token")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSpec:
    """What a tokenizer is, as plain values: a worker process makes its own of them."""

    name: str  # as it was asked for
    source: str  # tokenizer.json's text
    size: int  # ids are below it
    specials: Mapping[str, str] = field(default_factory=dict)  # eos_token, ... -> the token
    eos: int | None = None
    around: tuple[tuple[int, ...], tuple[int, ...]] = (
        (),
        (),
    )  # ids it puts before and after a text
    parts_pairs: bool = True  # it puts something between the two texts of a pair
    template: str | None = None  # Jinja

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> TokenizerSpec:
        """Return what `dataclasses.asdict` and JSON made of one."""
        before, after = plain["around"]
        return cls(**{**plain, "around": (tuple(before), tuple(after))})

    @property
    def fingerprint(self) -> str:
        """Return a digest of all that decides which ids a text gets."""
        return digest(self.source, json.dumps(dict(self.specials), sort_keys=True))

    @property
    def is_narrow(self) -> bool:
        """Return whether every id fits into 16 bits."""
        return self.size <= 1 << 16

    def chat(self, wanted: str | None, by: Said = None) -> Template:
        """Return the chat template: its own or `chatml`, by default its own where it has one.

        `by` is how the user says which. Raises DataError where its own is asked for and there is
        none, or the name is unknown.
        """
        if wanted is None:
            wanted = "tokenizer" if self.template else "chatml"
        if wanted == "chatml":
            return Template(source=CHATML)
        if wanted != "tokenizer":
            near = did_you_mean(wanted, ("chatml", "tokenizer"))
            raise DataError(f"there is no chat template {wanted!r}{near}: chatml or tokenizer")
        if self.template is None:
            other = said("--template chatml", by) or "chatml is another"
            raise DataError(f"{self.name} has no chat template of its own: {other}")
        return Template(source=self.template, names=self.specials)


def find_tokenizer(name: str) -> TokenizerSpec:
    """Return the tokenizer of a folder, of a tokenizer.json or of an id on the hub.

    Raises DeviceError when a package is missing, DataError, with what to do, when there is none.
    """
    _need("tokenizers")
    place = Path(name).expanduser()
    if place.is_file():
        return _vocabulary(name, {"tokenizer.json": place, **_beside(place.parent)})
    if place.is_dir():
        files = {each: place / each for each in _FILES if (place / each).is_file()}
        return _vocabulary(name, files) if "tokenizer.json" in files else _converted(name, files)
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise DataError(f"{name} does not exist: name a folder with a tokenizer.json, or a hub id")
    files = _fetched(name)
    return _vocabulary(name, files) if "tokenizer.json" in files else _converted(name, files)


@contextmanager
def no_panic(name: str) -> Iterator[None]:
    """Have a panic of the package `tokenizers`, no Exception of Python's, raise DataError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # pyo3 makes a class for each package
            raise
        raise DataError(
            f"the package tokenizers fails on the tokenizer of {name}: {error}"
        ) from error


def _need(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise DeviceError(f"the package {package} is missing: pip install 'hotloop[hf]'")


def _beside(folder: Path) -> dict[str, Path]:
    return {each: folder / each for each in _FILES[1:] if (folder / each).is_file()}


def _fetched(name: str) -> dict[str, Path]:
    """Return the files of a hub id, from this machine's cache where they are."""
    _need("huggingface_hub")
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    found = {}
    for each in _FILES:
        try:
            found[each] = Path(hf_hub_download(name, each))
        except LocalEntryNotFoundError as error:
            if each == _FILES[0]:
                raise DataError(
                    f"{name} is neither a folder here nor in this machine's hub cache, and the hub "
                    "cannot be reached: name a folder, or fetch it where there is a network with "
                    f"`hf download {name}`"
                ) from error
        except EntryNotFoundError:
            continue
        except (HfHubHTTPError, OSError, ValueError) as error:
            raise DataError(f"{name} cannot be had from the hub: {error}") from error
    return found


def _converted(name: str, files: Mapping[str, Path]) -> TokenizerSpec:
    """Let transformers make a fast tokenizer of a slow one; no code of the folder is run."""
    _need("transformers")
    from transformers import AutoTokenizer

    try:
        made = AutoTokenizer.from_pretrained(name, use_fast=True, trust_remote_code=False)
        source = made.backend_tokenizer.to_str()
    except (OSError, ValueError, AttributeError, ImportError) as error:
        raise DataError(
            f"{name} has no tokenizer.json, and transformers cannot make one of what is there: "
            f"{error}"
        ) from error
    return _made(name, source, files)


def _vocabulary(name: str, files: Mapping[str, Path]) -> TokenizerSpec:
    try:
        source = files["tokenizer.json"].read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {files['tokenizer.json']}: {error}") from error
    return _made(name, source, files)


def _made(name: str, source: str, files: Mapping[str, Path]) -> TokenizerSpec:
    from tokenizers import Tokenizer

    with no_panic(name):
        try:
            made = Tokenizer.from_str(source)
        except Exception as error:  # the package raises no other
            raise DataError(f"the tokenizer.json of {name} is not one: {error}") from error
        around, parts_pairs = _around(made), _parts_pairs(made)
    config = read_json(files["tokenizer_config.json"]) if "tokenizer_config.json" in files else {}
    special = files.get("special_tokens_map.json")
    more = read_json(special) if special is not None else {}
    specials = {key: word for key in _NAMED if (word := _word(config.get(key) or more.get(key)))}
    eos = specials.get("eos_token")
    own = files.get("chat_template.jinja")
    template = own.read_text("utf-8") if own is not None else _template(config)
    size = 1 + max(made.get_vocab(with_added_tokens=True).values(), default=0)
    return TokenizerSpec(
        name=name,
        source=source,
        size=size,
        specials=specials,
        eos=None if eos is None else made.token_to_id(eos),
        around=around,
        parts_pairs=parts_pairs,
        template=template,
    )


def _around(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the special tokens that the tokenizer itself puts before and after a text."""
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    if not bare:
        return (), ()
    for at in range(len(whole) - len(bare) + 1):
        if whole[at : at + len(bare)] == bare:
            return tuple(whole[:at]), tuple(whole[at + len(bare) :])
    return (), ()


def _parts_pairs(tokenizer: Any) -> bool:
    """Return whether anything but the two texts themselves stands between the texts of a pair."""
    before, after = _around(tokenizer)
    bare = tokenizer.encode("a", "a", add_special_tokens=False).ids
    return bool(tokenizer.encode("a", "a").ids != [*before, *bare, *after])


def _word(value: object) -> str | None:
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else None


def _template(config: Mapping[str, Any]) -> str | None:
    value = config.get("chat_template")
    if isinstance(value, list):  # several, by name
        value = {each.get("name"): each.get("template") for each in value}.get("default")
    return value if isinstance(value, str) else None
