"""Sets of conversations, one after another: ShareGPT, UltraChat, UltraChat 200k, OpenHermes 2.5."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from typing import TYPE_CHECKING

from benchmarks.public_samples.columns import value
from benchmarks.public_samples.sources import sentences
from benchmarks.public_samples.writing import HUB, json_lines

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from benchmarks.public_samples.columns import Row
    from benchmarks.public_samples.instructions import Question
    from benchmarks.public_samples.writing import Samples

__all__ = ["conversation", "new_id", "openhermes", "sharegpt", "ultrachat", "ultrachat_200k"]


def conversation(questions: Sequence[Question], number: int, *, turns: int) -> list[str]:
    """Return turns of a user and an assistant; conversations with near numbers share questions."""
    found = []
    for turn in range(turns // 2):
        one = questions[(number * 3 + turn) % len(questions)]
        found += [one.question, f"{one.answer}. {sentences(one.context)[0]}"]
    return found


def new_id(draw: random.Random) -> str:
    """Return a random UUID."""
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


def _spoken(texts: Sequence[str]) -> list[Row]:
    """Return turns with ShareGPT's keys and names of the speakers."""
    return [
        {"from": "gpt" if number % 2 else "human", "value": text}
        for number, text in enumerate(texts)
    ]


def sharegpt(samples: Samples, questions: Sequence[Question]) -> None:
    """Write a file of the hub's anon8231489123/ShareGPT_Vicuna_unfiltered.

    Some conversations start with the assistant or with a system turn, and some are empty.
    """
    rows = []
    for number in range(300):
        count = samples.draw.choice([2, 4, 6])
        turns = _spoken(conversation(questions, number, turns=count))
        if number % 29 == 5:
            turns = turns[1:]
        if number % 41 == 7:
            turns.insert(0, {"from": "system", "value": "You are a helpful assistant."})
        if number % 97 == 13:
            turns = []
        name = base64.b64encode(f"s{number}".encode()).decode().strip("=")
        rows.append({"id": f"{name}Q_{number % 3 * 2}", "conversations": turns})
    file = "ShareGPT_V3_unfiltered_cleaned_split.json"
    samples.write(f"sharegpt-json/{file}", json.dumps(rows, indent=2))
    samples.describe(
        "sharegpt-json",
        name="ShareGPT",
        form="JSON array of conversations",
        kind="chat",
        published_by=f"{HUB}anon8231489123/ShareGPT_Vicuna_unfiltered",
        notes="file name and conversations/from/value verified; the odd rows (start with gpt, "
        "empty conversation, system turn) and id form are from memory; long talks are split: id "
        "ends in _0, _2",
    )


def ultrachat(samples: Samples, questions: Sequence[Question]) -> None:
    """Write UltraChat as github thunlp/UltraChat describes it: lists of texts without speakers."""
    first = [
        conversation(questions, number, turns=samples.draw.choice([4, 6, 8]))
        for number in range(200)
    ]
    second = [conversation(questions, number, turns=4) for number in range(200, 320)]
    for file, start, talks in (("train_0", 0, first), ("train_1", 200, second)):
        rows = [{"id": str(number), "data": talk} for number, talk in enumerate(talks, start)]
        content = json_lines(rows, ensure_ascii=False)
        samples.write(f"ultrachat-jsonl/{file}.jsonl", content)
    samples.describe(
        "ultrachat-jsonl",
        name="UltraChat",
        form="original jsonl {id, data: [strings]}",
        kind="chat",
        published_by=f"github thunlp/UltraChat README (Data Format); {HUB}stingning/ultrachat",
        notes="speakers are implied by position (user first); file names train_<n>.jsonl from "
        "memory; no dev",
    )


def ultrachat_200k(samples: Samples, questions: Sequence[Question]) -> None:
    """Write UltraChat 200k in the form of the hub's HuggingFaceH4/ultrachat_200k."""
    numbers = {
        "train_sft": range(240),
        "test_sft": range(240, 360),
        "train_gen": range(120),
        "test_gen": range(240, 300),
    }
    splits = {
        split: [
            _prompted(conversation(questions, number, turns=samples.draw.choice([4, 6])))
            for number in some
        ]
        for split, some in numbers.items()
    }
    columns = {
        "prompt": value(),
        "prompt_id": value(),
        "messages": [{"content": value(), "role": value()}],
    }
    samples.write_hub(
        "ultrachat200k-hub-parquet",
        splits,
        columns,
        folder="data",
        shards={"train_sft": 3, "train_gen": 3},
        is_hashed=True,
    )
    samples.describe(
        "ultrachat200k-hub-parquet",
        name="UltraChat 200k",
        form="hub parquet (HuggingFaceH4/ultrachat_200k)",
        kind="chat",
        published_by=f"{HUB}HuggingFaceH4/ultrachat_200k",
        notes="splits train_sft, test_sft, train_gen, test_gen; 3 shards with hash in the name; "
        "prompt repeats messages[0].content",
    )


def _prompted(texts: Sequence[str]) -> Row:
    """Return a conversation with its first text as the prompt."""
    return {
        "prompt": texts[0],
        "prompt_id": hashlib.sha256(texts[0].encode()).hexdigest(),
        "messages": [
            {"content": text, "role": "assistant" if number % 2 else "user"}
            for number, text in enumerate(texts)
        ],
    }


def openhermes(samples: Samples, questions: Sequence[Question]) -> None:
    """Write openhermes2_5.json of the hub's teknium/OpenHermes-2.5.

    The set was merged from others, each with keys of its own; here there are three of them.
    """
    makers = (_airoboros, _evolved, _glaive)
    rows = []
    for number in range(300):
        count = samples.draw.choice([2, 2, 4])
        turns = _spoken(conversation(questions, number, turns=count))
        rows.append(makers[number % len(makers)](samples.draw, turns, number))
    samples.write("openhermes-json/openhermes2_5.json", json.dumps(rows, indent=2))
    samples.describe(
        "openhermes-json",
        name="OpenHermes-2.5",
        form="openhermes2_5.json",
        kind="chat",
        published_by=f"{HUB}teknium/OpenHermes-2.5",
        notes="one JSON array; the union of keys and the shape of conversations verified through "
        "its users; which keys are absent rather than null in the raw file is from memory",
    )


def _airoboros(draw: random.Random, turns: list[Row], _: int) -> Row:
    return {
        "conversations": turns,
        "source": "airoboros2.2",
        "category": draw.choice(["orca", "multiple_choice", "general"]),
        "skip_prompt_formatting": False,
    }


def _evolved(draw: random.Random, turns: list[Row], number: int) -> Row:
    return {
        "system_prompt": "You are an expert.",
        "conversations": [{**turn, "weight": None} for turn in turns],
        "idx": str(number),
        "source": "EvolInstruct_70k",
        "id": new_id(draw),
        "model_name": None,
        "language": "English",
        "custom_instruction": None,
    }


def _glaive(draw: random.Random, turns: list[Row], _: int) -> Row:
    system = {"from": "system", "value": "You are to answer briefly."}
    return {
        "conversations": [system, *turns],
        "source": "glaive-code-assist",
        "title": None,
        "topic": "Facts",
        "hash": [draw.getrandbits(40)],
        "views": 7,
        "avatarUrl": None,
        "model": "gpt-4",
    }
