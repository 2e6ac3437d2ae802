"""Removes keys, passwords and tokens from command lines before anything is written to a file.

A word is a secret by the name of its option (`--api-key X`, `db.password=Y`, `{"token": "Z"}`), by
its place in a URL (`https://user:secret@host`, `?token=Z`), or by a vendor's prefix.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["MASK", "Hider", "redacted"]

MASK: Final = "***"
_PARTS: Final = re.compile(r"[^A-Za-z0-9]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ALWAYS: Final = frozenset({
    "password", "passwd", "pwd", "passphrase", "secret", "secrets", "credential",
    "credentials", "apikey", "authtoken", "accesstoken", "accesskey", "secretkey"
})  # fmt: skip
_KEYS: Final = frozenset({
    "api", "access", "secret", "private", "auth", "account", "encryption", "wandb"
})  # fmt: skip
# Tokens of a vocabulary, and their counts: pad_token, max-token.
_OF_TEXT: Final = frozenset({
    "pad", "eos", "bos", "sos", "unk", "mask", "sep", "cls", "image", "audio", "video", "stop",
    "end", "start", "per", "new", "next", "special", "prompt", "text", "min", "max", "num",
    "first", "last"
})  # fmt: skip
_NUMBER: Final = re.compile(r"[-+]?[0-9.]+|true|false|none|null", re.IGNORECASE)
_OPTION: Final = re.compile(r"(-{1,2}|\+{0,2})([A-Za-z][\w.\-/@]*)(?:=(.*))?", re.DOTALL)
_USER: Final = re.compile(r"[a-z][a-z0-9+.\-]*://[^/\s:@]*:([^/\s@]+)@", re.IGNORECASE)
_QUERY: Final = re.compile(r"[?&]([\w.\-]+)=([^&#\s]+)")
_QUOTED: Final = re.compile(r"""["']([\w.\-]+)["']\s*:\s*["']([^"']+)["']""")
# https://docs.github.com/en/authentication/keeping-your-account-and-data-secure/about-authentication-to-github
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html (both 2026-11)
_VENDOR: Final = re.compile(
    r"\b(hf_\w{16,}|sk-[\w\-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w\-]{16,}|"
    r"xox[abeprs]-[\w\-]{10,}|AKIA[0-9A-Z]{16}|AIza[\w\-]{30,})"
)
_SHORTEST: Final = 6  # characters of a secret that is removed from other texts


def redacted(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command with each secret replaced by MASK."""
    secrets = dict(_secrets_in(words))
    return tuple(_without(word, secrets.get(index, ())) for index, word in enumerate(words))


class Hider:
    """Removes the secrets of a command from texts and JSON values."""

    def __init__(self, words: Sequence[str]) -> None:
        secrets_of_words = {secret for _, secrets in _secrets_in(words) for secret in secrets}
        self._secrets = sorted(
            (word for word in secrets_of_words if _is_telling(word)), key=len, reverse=True
        )

    def text(self, text: str) -> str:
        """Return a text, or an HTML page, without the secrets."""
        for secret in self._secrets:
            for spelling in dict.fromkeys((secret, html.escape(secret))):
                if spelling in text:
                    text = re.sub(rf"(?<!\w){re.escape(spelling)}(?!\w)", MASK, text)
        return text

    def json(self, value: Any) -> Any:
        """Return a JSON value without the secrets; keys are hotloop's own and stay."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self.json(element) for key, element in value.items()}
        return (
            [self.json(element) for element in value] if isinstance(value, list | tuple) else value
        )


def _is_telling(secret: str) -> bool:
    """Whether a secret is distinctive, not an ordinary word such as "train" or "secret"."""
    return len(secret) >= _SHORTEST and not secret.isalpha()


def _secrets_in(words: Sequence[str]) -> Iterator[tuple[int, set[str]]]:
    """Yield (index, secrets) of each word that contains secrets."""
    for index, word in enumerate(words):
        secrets = {match[1] for match in _USER.finditer(word)}
        secrets |= {match[0] for match in _VENDOR.finditer(word)}
        for pattern in (_QUERY, _QUOTED):
            secrets |= {match[2] for match in pattern.finditer(word) if _is_secret(match[1])}
        option = _OPTION.fullmatch(word)
        if option and option[3] and _is_secret(option[2]) and _is_value(option[3]):
            secrets.add(option[3])
        before = _OPTION.fullmatch(words[index - 1]) if index else None
        asks = before is not None and before[1].startswith("-") and before[3] is None
        if before and asks and _is_secret(before[2]) and _is_value(word):
            secrets.add(word)
        if secrets:
            yield index, secrets


def _is_value(word: str) -> bool:
    return not word.startswith("-") and not _NUMBER.fullmatch(word)


def _is_secret(name: str) -> bool:
    name_words = [
        name_word.lower()
        for word in _PARTS.split(name)
        for name_word in _CAMEL.split(word)
        if name_word
    ]
    if not name_words:
        return False
    *before, last = name_words
    if last == "token":
        return not before or before[-1] not in _OF_TEXT
    if last == "key":
        return bool(before) and before[-1] in _KEYS
    return bool(_ALWAYS.intersection(name_words))


def _without(word: str, secrets: set[str] | tuple[()]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        word = MASK if word == secret else word.replace(secret, MASK)
    return word
