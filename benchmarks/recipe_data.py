"""What the recipes are raced on: small models with random weights, and rows of known lengths.

Every word is a token of the tokenizer, so a row has exactly as many tokens as it is meant to have.
Lengths are the quantiles of a cut lognormal, in an order drawn from a seed: the same everywhere.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hotloop.data.sampling.token_rows import TokenRows

__all__ = [
    "HELD",
    "Lengths",
    "Sizes",
    "Texts",
    "held",
    "kept",
    "rows_of",
    "tokenizer",
    "write_rows",
    "written",
]

SPECIALS = ("[PAD]", "[CLS]", "[SEP]", "</s>")
HELD = 16  # rows of the held-out batch
TOPICS, TOPIC_WORDS = 16, 48  # a row's words are those of its topic: something can be learned
QUESTION = 12  # words of the first of two texts, as a question has


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Tokens of rows, special ones included."""

    median: float
    sigma: float  # of the logarithm
    low: int
    high: int

    def drawn(self, count: int, seed: int) -> list[int]:
        """Return `count` of them."""
        places = [NormalDist().inv_cdf((at + 0.5) / count) for at in range(count)]
        found = [round(self.median * math.exp(self.sigma * place)) for place in places]
        random.Random(seed).shuffle(found)
        return [min(max(each, self.low), self.high) for each in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """A model's."""

    width: int
    layers: int
    heads: int
    vocabulary: int
    positions: int
    dropout: float = 0.0  # of an encoder; with it, losses of two sides cannot be compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """What rows are: one text or two with a label, or a prompt with its response."""

    kind: str  # "text", "pair" or "prompt"
    lengths: Lengths
    rows: int

    def made(self, vocabulary: int, *, seed: int, count: int | None = None) -> Iterator[Any]:
        """Yield the rows."""
        draw = random.Random(seed)
        topics = [draw.sample(range(len(SPECIALS), vocabulary), TOPIC_WORDS) for _ in range(TOPICS)]
        for length in self.lengths.drawn(count or self.rows, seed):
            topic = draw.randrange(TOPICS)
            # The end of a text takes a token, and so do [CLS] and the [SEP] between two.
            words = [f"w{id}" for id in draw.choices(topics[topic], k=length - self.specials)]
            if self.kind == "prompt":
                half = len(words) // 2
                yield {"prompt": " ".join(words[:half]), "response": " ".join(words[half:])}
            elif self.kind == "pair":
                question, text = words[:QUESTION], words[QUESTION:]
                both = {"text_a": " ".join(question), "text_b": " ".join(text)}
                yield {**both, "label": topic % 2}
            else:
                yield {"text": " ".join(words), "label": topic % 2}

    @property
    def specials(self) -> int:
        """Special tokens of a row."""
        return {"text": 2, "pair": 3, "prompt": 1}[self.kind]


def written(folder: Path, texts: Texts, sizes: Sizes) -> None:
    """Write a model, train.jsonl and valid.jsonl."""
    tokenizer(folder / "model", texts.kind, sizes.vocabulary)
    torch.manual_seed(0)
    model = _decoder(sizes) if texts.kind == "prompt" else _encoder(sizes)
    model.save_pretrained(folder / "model")
    write_rows(folder, texts, sizes.vocabulary)


def write_rows(folder: Path, texts: Texts, vocabulary: int) -> None:
    """Write train.jsonl and valid.jsonl."""
    # The topics come first from the seed: another seed would have others.
    train = [*texts.made(vocabulary, seed=1, count=texts.rows + HELD)]
    for name, rows in (("train", train[HELD:]), ("valid", train[:HELD])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def tokenizer(folder: Path, kind: str, vocabulary: int) -> None:
    """Write a tokenizer whose words are tokens."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = [*SPECIALS, *(f"w{id}" for id in range(len(SPECIALS), vocabulary))]
    ids = {word: id for id, word in enumerate(words)}
    made = Tokenizer(models.WordLevel(ids, unk_token="[PAD]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(list(SPECIALS))
    if kind != "prompt":
        made.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[(name, ids[name]) for name in ("[CLS]", "[SEP]")],
        )
    folder.mkdir(parents=True)
    made.save(str(folder / "tokenizer.json"))
    named = {"pad_token": "[PAD]", "tokenizer_class": "PreTrainedTokenizerFast"}
    named |= {"eos_token": "</s>"} if kind == "prompt" else {"cls_token": "[CLS]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))


def _encoder(sizes: Sizes) -> Any:
    """Return a BERT."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.width,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=4 * sizes.width,
        max_position_embeddings=sizes.positions,
        hidden_dropout_prob=sizes.dropout,
        attention_probs_dropout_prob=sizes.dropout,
    )
    return BertModel(config, add_pooling_layer=False)


def _decoder(sizes: Sizes) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=sizes.vocabulary,
            hidden_size=sizes.width,
            intermediate_size=3 * sizes.width,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            num_key_value_heads=max(1, sizes.heads // 2),
            head_dim=sizes.width // sizes.heads,
            max_position_embeddings=sizes.positions,
            tie_word_embeddings=True,
            eos_token_id=SPECIALS.index("</s>"),
            pad_token_id=SPECIALS.index("[PAD]"),
            bos_token_id=None,
        )
    )


def rows_of(samples: TokenRows) -> list[dict[str, Any]]:
    """Return hotloop's own tokens and labels as rows of a peer: lists, without padding."""
    found = []
    for row in samples.chosen.tolist():
        tensors = samples.gather(np.array([row])).tensors
        count = int(samples.lengths[row])
        names = ("input_ids", "token_type_ids", "labels")
        made: dict[str, Any] = {n: tensors[n][0, :count].tolist() for n in names if n in tensors}
        if "task" in tensors:
            made["task"] = int(tensors["task"][0])
        if "label" in tensors:
            made["labels"] = int(tensors["label"][0])
        found.append(made)
    return found


def held(rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Return rows as one padded batch, with the names that hotloop and transformers have."""
    width = max(len(row["input_ids"]) for row in rows)

    def padded(name: str, value: int) -> torch.Tensor:
        return torch.tensor([row[name] + [value] * (width - len(row[name])) for row in rows])

    batch = {"input_ids": padded("input_ids", 0)}
    lengths = torch.tensor([len(row["input_ids"]) for row in rows])
    batch["attention_mask"] = torch.arange(width)[None] < lengths[:, None]
    if "token_type_ids" in rows[0]:
        batch["token_type_ids"] = padded("token_type_ids", 0)
    if isinstance(rows[0]["labels"], int):
        batch["labels"] = torch.tensor([row["labels"] for row in rows])
    else:
        batch["labels"] = padded("labels", -100)
    return batch


def kept(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows that were written for the peers."""
    found: list[dict[str, Any]] = json.loads((folder / f"{name}.json").read_text())
    return found
