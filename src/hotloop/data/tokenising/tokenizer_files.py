"""Read a tokenizer from a model folder or the hub: its file, special tokens and template.

Only the package `tokenizers` is needed to use one; if a folder has no tokenizer.json, transformers
converts its slow tokenizer into a fast one; huggingface_hub downloads hub ids.
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
from hotloop.data.tokenising.chat_templates import ALPACA, CHATML, Template

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
    """A tokenizer as plain values, of which a worker process makes its own."""

    name: str  # as the user gave it
    source: str  # the text of tokenizer.json
    size: int  # ids are below it
    specials: Mapping[str, str] = field(default_factory=dict)  # eos_token, ... -> the token
    eos: int | None = None
    around: tuple[tuple[int, ...], tuple[int, ...]] = (
        (),
        (),
    )  # ids that it puts before and after a text
    parts_pairs: bool = True  # it puts something between the two texts of a pair
    template: str | None = None  # Jinja

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> TokenizerSpec:
        """Return the spec that `dataclasses.asdict` and JSON converted."""
        before, after = plain["around"]
        return cls(**{**plain, "around": (tuple(before), tuple(after))})

    @property
    def fingerprint(self) -> str:
        """Return a digest of everything that decides the ids of a text."""
        return digest(self.source, json.dumps(dict(self.specials), sort_keys=True))

    @property
    def is_narrow(self) -> bool:
        """Return whether every id fits into 16 bits."""
        return self.size <= 1 << 16

    def tokenizer(self) -> Any:
        """Return the tokenizer of the package `tokenizers`, which neither cuts nor pads texts."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(self.source)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def chat(self, requested: str | None, by: Said = None) -> Template:
        """Return the chat template: its own, `chatml` or `alpaca`; by default its own, else chatml.

        `by` maps options to the user's words. Raises DataError if its own is requested and there is
        none, or the name is unknown.
        """
        if requested is None:
            requested = "tokenizer" if self.template else "chatml"
        if requested == "chatml":
            return Template(source=CHATML)
        if requested == "alpaca":
            return Template(source=ALPACA, names={"eos_token": "", **self.specials})
        if requested != "tokenizer":
            near = did_you_mean(requested, ("chatml", "tokenizer", "alpaca"))
            raise DataError(
                f"there is no chat template {requested!r}{near}: chatml, alpaca or tokenizer"
            )
        if self.template is None:
            advice = said("--template chatml", by) or "chatml is another"
            raise DataError(f"{self.name} has no chat template of its own: {advice}")
        return Template(source=self.template, names=self.specials)


def find_tokenizer(name: str) -> TokenizerSpec:
    """Return the tokenizer of a folder, of a tokenizer.json or of a hub id.

    Raises DeviceError if a package is missing, DataError, with a remedy, if there is no tokenizer.
    """
    _need("tokenizers")
    place = Path(name).expanduser()
    if place.is_file():
        return _vocabulary(name, {"tokenizer.json": place, **_beside(place.parent)})
    if place.is_dir():
        files = {file: place / file for file in _FILES if (place / file).is_file()}
        return _vocabulary(name, files) if "tokenizer.json" in files else _converted(name, files)
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise DataError(f"{name} does not exist: name a folder with a tokenizer.json, or a hub id")
    files = _fetched(name)
    return _vocabulary(name, files) if "tokenizer.json" in files else _converted(name, files)


@contextmanager
def no_panic(name: str) -> Iterator[None]:
    """Turn a panic of the package `tokenizers`, which is not an Exception, into a DataError."""
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
    return {file: folder / file for file in _FILES[1:] if (folder / file).is_file()}


def _fetched(name: str) -> dict[str, Path]:
    """Return the files of a hub id, from this machine's cache if they are there."""
    _need("huggingface_hub")
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    paths = {}
    for file in _FILES:
        try:
            paths[file] = Path(hf_hub_download(name, file))
        except LocalEntryNotFoundError as error:
            if file == _FILES[0]:
                raise DataError(
                    f"{name} is neither a folder here nor in this machine's hub cache, and the hub "
                    "cannot be reached: name a folder, or fetch it where there is a network with "
                    f"`hf download {name}`"
                ) from error
        except EntryNotFoundError:
            continue
        except (HfHubHTTPError, OSError, ValueError) as error:
            raise DataError(f"{name} cannot be had from the hub: {error}") from error
    return paths


def _converted(name: str, files: Mapping[str, Path]) -> TokenizerSpec:
    """Convert a slow tokenizer into a fast one with transformers; no code of the folder runs."""
    _need("transformers")
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(name, use_fast=True, trust_remote_code=False)
        source = tokenizer.backend_tokenizer.to_str()
    except (OSError, ValueError, AttributeError, ImportError) as error:
        raise DataError(
            f"{name} has no tokenizer.json, and transformers cannot make one of what is there: "
            f"{error}"
        ) from error
    return _spec(name, source, files)


def _vocabulary(name: str, files: Mapping[str, Path]) -> TokenizerSpec:
    try:
        source = files["tokenizer.json"].read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {files['tokenizer.json']}: {error}") from error
    return _spec(name, source, files)


def _spec(name: str, source: str, files: Mapping[str, Path]) -> TokenizerSpec:
    from tokenizers import Tokenizer

    with no_panic(name):
        try:
            tokenizer = Tokenizer.from_str(source)
        except Exception as error:  # the package raises no other
            raise DataError(f"the tokenizer.json of {name} is not one: {error}") from error
        around, parts_pairs = _around(tokenizer), _parts_pairs(tokenizer)
    config = read_json(files["tokenizer_config.json"]) if "tokenizer_config.json" in files else {}
    special = files.get("special_tokens_map.json")
    more = read_json(special) if special is not None else {}
    specials = {key: word for key in _NAMED if (word := _word(config.get(key) or more.get(key)))}
    eos = specials.get("eos_token")
    template_file = files.get("chat_template.jinja")
    template = template_file.read_text("utf-8") if template_file is not None else _template(config)
    size = 1 + max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
    return TokenizerSpec(
        name=name,
        source=source,
        size=size,
        specials=specials,
        eos=None if eos is None else tokenizer.token_to_id(eos),
        around=around,
        parts_pairs=parts_pairs,
        template=template,
    )


def _around(tokenizer: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the special tokens that the tokenizer puts before and after a text."""
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    if not bare:
        return (), ()
    for start in range(len(whole) - len(bare) + 1):
        if whole[start : start + len(bare)] == bare:
            return tuple(whole[:start]), tuple(whole[start + len(bare) :])
    return (), ()


def _parts_pairs(tokenizer: Any) -> bool:
    """Return whether the tokenizer puts tokens between the two texts of a pair."""
    before, after = _around(tokenizer)
    bare = tokenizer.encode("a", "a", add_special_tokens=False).ids
    return bool(tokenizer.encode("a", "a").ids != [*before, *bare, *after])


def _word(value: object) -> str | None:
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else None


def _template(config: Mapping[str, Any]) -> str | None:
    value = config.get("chat_template")
    if isinstance(value, list):  # several, by name
        value = {entry.get("name"): entry.get("template") for entry in value}.get("default")
    return value if isinstance(value, str) else None
