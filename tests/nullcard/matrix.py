"""Trains the recipes on null cards, one of each capability, and prints a table of what they did.

HOTLOOP_NULLCARD_PYTHON=... python -m tests.nullcard.matrix [--record] [--only TEXT] [--card CARD]

--record writes the figures into matrix.json, to which the tests hold them, and from which
`python docs/nullcard.py` makes its page.
"""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from tests.nullcard import golden
from tests.nullcard.programs import NullCardError, python
from tests.nullcard.recipes import EACH_CAPABILITY, RECIPES, SETTINGS, Recipe, Run, explained
from tests.nullcard.techniques import CHANGES
from tests.nullcard.training import trainer

_LONGEST = 160  # characters of a message


def main() -> None:
    """Train what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name has TEXT")
    parser.add_argument("--card", action="append", choices=EACH_CAPABILITY)
    asked = parser.parse_args()
    with trainer(python()) as train:
        for recipe in (*RECIPES, *CHANGES):
            for card in recipe.cards if asked.only in recipe.name else ():
                if asked.card and card not in asked.card:
                    continue
                version, rows = _trained(train, recipe, card)
                for name, row in rows.items():
                    print(_line(name, card, row), flush=True)
                if asked.record:
                    golden.write(version, {name: {card: row} for name, row in rows.items()})


def _trained(train: Any, recipe: Recipe, card: str) -> tuple[str, dict[str, dict[str, Any]]]:
    try:
        facts = train(recipe, card)
    except NullCardError as error:
        return golden.read()["torch"], {recipe.name: {"outcome": f"crash: {_last(str(error))}"}}
    rows = {}
    if facts["exit"]:
        rows[recipe.name] = {"outcome": f"exit {facts['exit']}: {_last(facts['said'])}"}
    for one, run in zip(recipe.runs, facts["runs"], strict=False) if not facts["exit"] else ():
        fp16 = card == "t4" or "fp16" in recipe.name
        odd = recipe.why or "; ".join(_unexplained(run, one, fp16=fp16))
        rows[recipe.named(one)] = golden.figures(run) | {"outcome": odd or "completed"}
    return facts["torch"], rows


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    chosen = next((line for line in reversed(lines) if "rror" in line), lines[-1] if lines else "")
    return chosen[:_LONGEST]


def _unexplained(run: Mapping[str, Any], one: Run, *, fp16: bool) -> Iterator[str]:
    """Yield what waits without a reason in `EXPLAINED`."""
    for number, step in enumerate(run["steps"], 1):
        is_read = number % SETTINGS["log_every"] == 0
        if number > golden.LOOKED_AT and (
            odd := _more(
                step["waits"], explained("log interval", one, fp16=fp16) if is_read else {}
            )
        ):
            yield f"step {number} waits: {odd}"
            break
    for part, found in (("validation", run["validations"]), ("save", filter(None, run["saves"]))):
        for at, waits in enumerate(found):
            if odd := _more(waits, explained(part, one, fp16=fp16, is_first=at == 0)):
                yield f"{part} {at + 1} waits: {odd}"
                break


def _more(found: Mapping[str, int], known: Mapping[str, int]) -> str:
    odd = {name: count - known.get(name, 0) for name, count in found.items()}
    return ", ".join(f"{name} {count}" for name, count in odd.items() if count > 0)


def _line(name: str, card: str, row: Mapping[str, Any]) -> str:
    shown = ""
    if "launches" in row:
        reserved, needed = row["reserved_mib"], row["needed_mib"]
        shown = f"{row['launches']:7.0f} launches {row['waits']:4.0f} waits "
        shown += f"{reserved:6.0f} / {needed:.0f} MiB ({reserved / needed:.2f})  "
    return f"{name:52} {card:8} {shown}{row['outcome']}"


if __name__ == "__main__":
    main()
