"""Helper of the stand-ins with text: made words, sentences by Zipf's law, a tiny tokenizer."""

import random

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

SYLLABLES = [first + vowel for first in "bcdfghklmnprstvwz" for vowel in "aeiou"]


def made(rng: random.Random, count: int) -> list[str]:
    """Return so many different words of one to four syllables."""
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4)))] = None
    return list(words)


def sentence(rng: random.Random, words: list[str], length: int) -> str:
    """Return so many words, the first ones of the list more often."""
    weights = [1 / (rank + 20) for rank in range(len(words))]
    return " ".join(rng.choices(words, weights, k=length))


def bert_tokenizer(words: list[str], length: int) -> PreTrainedTokenizerFast:
    """Return BERT's kind of tokenizer (WordPiece, [CLS] a [SEP] b [SEP]) that knows the words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*"abcdefghijklmnopqrstuvwxyz.,?!"]
    pieces += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    vocabulary = {piece: at for at, piece in enumerate(dict.fromkeys([*special, *pieces, *words]))}
    core = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer(lowercase=True)
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), special, strict=True))
    tokens = {f"{key}_token": name for key, name in names.items()}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=core, model_max_length=length, model_input_names=inputs, **tokens
    )
