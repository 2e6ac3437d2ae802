"""OASST1: conversations that branch, as trees and as flat messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.public_samples.chats import conversation, new_id
from benchmarks.public_samples.columns import sequence, value
from benchmarks.public_samples.writing import HUB, json_lines, packed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.public_samples.columns import Row
    from benchmarks.public_samples.instructions import Question
    from benchmarks.public_samples.writing import Samples

__all__ = ["oasst1"]

LABELS = [
    *("spam", "lang_mismatch", "pii", "not_appropriate", "hate_speech", "sexual_content"),
    *("quality", "toxicity", "humor", "creativity", "violence"),
]
DETOXIFY = [
    *("toxicity", "severe_toxicity", "obscene", "identity_attack", "insult", "threat"),
    "sexual_explicit",
]
TREES = 140
TRAINING_TREES = 110
ANNOTATORS = 3


def oasst1(samples: Samples, questions: Sequence[Question]) -> None:
    """Write OASST1 in three forms.

    The shapes are those of the hub's OpenAssistant/oasst1, and of oasst-data/README.md and
    oasst_data/schemas.py of github LAION-AI/Open-Assistant.
    """
    trees = [_tree(samples, questions, number) for number in range(TREES)]
    messages = [message for tree in trees for message in _flat(tree)]
    rows = [{**tree, "prompt": _without_nulls(tree["prompt"])} for tree in trees]
    samples.write("oasst1-trees/2023-04-12_oasst_ready.trees.jsonl.gz", packed(json_lines(rows)))
    samples.describe(
        "oasst1-trees",
        name="OASST1",
        form="trees jsonl.gz",
        kind="chat",
        published_by=f"{HUB}OpenAssistant/oasst1; github LAION-AI/Open-Assistant "
        "oasst-data/README.md, oasst_data/schemas.py",
        notes="prompt -> replies -> replies ...; roles prompter/assistant; rank 0 is the best "
        "reply; trees may end with a prompter; nulls left out (from memory); emojis and labels "
        "are objects",
    )
    samples.write(
        "oasst1-messages/2023-04-12_oasst_ready.messages.jsonl.gz",
        packed(json_lines(map(_without_nulls, messages))),
    )
    samples.describe(
        "oasst1-messages",
        name="OASST1",
        form="flat messages jsonl.gz",
        kind="chat",
        published_by=f"{HUB}OpenAssistant/oasst1; oasst-data/README.md",
        notes="one message a line, joined by parent_id; nulls left out (from memory)",
    )
    training = {tree["message_tree_id"] for tree in trees[:TRAINING_TREES]}
    _hub(samples, messages, training)


def _tree(samples: Samples, questions: Sequence[Question], number: int) -> Row:
    """Return a prompt with two replies, of which the first goes on; each fourth ends unanswered."""
    first, answer, second, last = conversation(questions, number, turns=4)
    root = _message(samples, first, role="prompter")
    for rank, text in enumerate([answer, answer.split(". ", 1)[-1]]):
        reply = _message(samples, text, role="assistant", parent=root["message_id"], rank=rank)
        root["replies"].append(reply)
    best = root["replies"][0]
    prompt = _message(samples, second, role="prompter", parent=best["message_id"])
    best["replies"].append(prompt)
    if number % 4:
        reply = _message(samples, last, role="assistant", parent=prompt["message_id"])
        prompt["replies"].append(reply)
    return {
        "message_tree_id": root["message_id"],
        "tree_state": "ready_for_export",
        "prompt": root,
    }


def _message(
    samples: Samples, text: str, *, role: str, parent: str | None = None, rank: int | None = None
) -> Row:
    """Return a message without replies; its judgements are random."""
    draw = samples.draw
    name, user = new_id(draw), new_id(draw)
    month, day, hour = draw.randrange(1, 4), draw.randrange(10, 28), draw.randrange(10, 24)
    microsecond = draw.randrange(10**5, 10**6)
    language = draw.choice([*["en"] * 9, "es"])
    detoxify = emojis = None
    if draw.random() < 0.8:
        detoxify = {key: round(draw.random() / 100, 8) for key in DETOXIFY}
    if draw.random() < 0.4:
        emojis = {"+1": draw.randrange(1, 9), "_skip_reply": 2}
    return {
        "message_id": name,
        "parent_id": parent,
        "user_id": user,
        "created_date": f"2023-0{month}-{day}T{hour}:17:00.{microsecond}+00:00",
        "text": text,
        "role": role,
        "lang": language,
        "review_count": ANNOTATORS,
        "review_result": True,
        "deleted": False,
        "rank": rank,
        "synthetic": False,
        "model_name": None,
        "detoxify": detoxify,
        "emojis": emojis,
        "replies": [],
        "labels": {key: {"value": round(draw.random(), 3), "count": ANNOTATORS} for key in LABELS},
    }


def _without_nulls(message: Row) -> Row:
    """Return a message and its replies without the keys that have no value."""
    kept = {key: content for key, content in message.items() if content is not None}
    if "replies" in kept:
        kept["replies"] = [_without_nulls(reply) for reply in kept["replies"]]
    return kept


def _walk(message: Row) -> Iterator[Row]:
    """Yield a message and all below it."""
    yield message
    for reply in message["replies"]:
        yield from _walk(reply)


def _flat(tree: Row) -> Iterator[Row]:
    """Yield the messages of a tree, each with the tree's name and without its replies."""
    for message in _walk(tree["prompt"]):
        last = ("replies", "emojis", "labels")
        yield {
            **{key: content for key, content in message.items() if key not in last},
            "message_tree_id": tree["message_tree_id"],
            "tree_state": tree["tree_state"],
            "emojis": message["emojis"],
            "labels": message["labels"],
        }


def _columns() -> Row:
    texts = ("message_id", "parent_id", "user_id", "created_date", "text", "role", "lang")
    emojis = {"name": value(), "count": value("int32")}
    labels = {"name": value(), "value": value("float64"), "count": value("int32")}
    return {
        **{name: value() for name in texts},
        "review_count": value("int32"),
        "review_result": value("bool"),
        "deleted": value("bool"),
        "rank": value("int32"),
        "synthetic": value("bool"),
        "model_name": value(),
        "detoxify": {key: value("float64") for key in DETOXIFY},
        "message_tree_id": value(),
        "tree_state": value(),
        "emojis": sequence(emojis),
        "labels": sequence(labels),
    }


def _hub(samples: Samples, messages: Sequence[Row], training: set[str]) -> None:
    """Write the repository OpenAssistant/oasst1, whose emojis and labels are parallel lists."""
    splits: dict[str, list[Row]] = {"train": [], "validation": []}
    for message in messages:
        emojis, labels = message["emojis"], message["labels"]
        if emojis:
            emojis = {"name": list(emojis), "count": list(emojis.values())}
        labels = {
            "name": list(labels),
            "value": [label["value"] for label in labels.values()],
            "count": [label["count"] for label in labels.values()],
        }
        split = "train" if message["message_tree_id"] in training else "validation"
        splits[split].append({**message, "emojis": emojis, "labels": labels})
    samples.write_hub("oasst1-hub-parquet", splits, _columns(), folder="data", is_hashed=True)
    samples.describe(
        "oasst1-hub-parquet",
        name="OASST1",
        form="hub parquet (flat)",
        kind="chat",
        published_by=f"{HUB}OpenAssistant/oasst1 (data/train-00000-of-00001-<hash>.parquet)",
        notes="file names carry a 16-digit hash; emojis and labels are structs of parallel lists, "
        "unlike the jsonl",
    )
