"""Scores generated texts against right answers, as means over the rows.

SQuAD's figures follow its own script (Rajpurkar et al. 2016, arXiv:1606.05250). ROUGE comes from
rouge-score (Lin 2004), BLEU and chrF from sacrebleu (Post 2018, arXiv:1804.08771): in the extra
`router`.
"""

from __future__ import annotations

import ast
import re
import string
from collections import Counter
from statistics import fmean
from typing import TYPE_CHECKING, Any

from hotloop.core.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["accuracy", "bleu_chrf", "exact_match_f1", "rouge", "same_code"]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_EXTRA = "pip install 'hotloop[router]'"


def accuracy(texts: Sequence[str], right: Sequence[tuple[str, ...]]) -> Mapping[str, float]:
    """Return the share of rows whose text is a right answer, ignoring case and outer spaces."""
    is_right = [
        text.strip().casefold() in {answer.strip().casefold() for answer in answers}
        for text, answers in zip(texts, right, strict=True)
    ]
    return {"accuracy": _mean(is_right)}


def exact_match_f1(texts: Sequence[str], right: Sequence[tuple[str, ...]]) -> Mapping[str, float]:
    """Return SQuAD's exact match and word F1, with the best of its answers for each row."""
    exact, f1 = [], []
    for text, answers in zip(texts, right, strict=True):
        words = _words(text)
        exact.append(any(words == _words(answer) for answer in answers))
        f1.append(max(_overlap(words, _words(answer)) for answer in answers))
    return {"exact_match": _mean(exact), "f1": _mean(f1)}


def rouge(texts: Sequence[str], right: Sequence[tuple[str, ...]]) -> Mapping[str, float]:
    """Return the F-measures of ROUGE-1, 2 and L with stemming; a row's best answer counts.

    Raises DeviceError where rouge-score is not installed.
    """
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ImportError as error:
        raise DeviceError(f"ROUGE needs the package rouge-score: {_EXTRA}") from error
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=True)
    rows = [scorer.score_multi(list(r), s) for s, r in zip(texts, right, strict=True)]
    return {
        name: _mean(row[name].fmeasure for row in rows) for name in ("rouge1", "rouge2", "rougeL")
    }


def bleu_chrf(texts: Sequence[str], right: Sequence[tuple[str, ...]]) -> Mapping[str, float]:
    """Return sacrebleu's corpus BLEU and chrF, 0 to 100.

    Raises DeviceError where sacrebleu is not installed.
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError as error:
        raise DeviceError(f"BLEU and chrF need the package sacrebleu: {_EXTRA}") from error
    if not texts:
        return {"bleu": 0.0, "chrf": 0.0}
    most = max(map(len, right))
    # A row with fewer references than another has None for the rest.
    references: Any = [
        [answers[position] if position < len(answers) else None for answers in right]
        for position in range(most)
    ]
    hypotheses = list(texts)
    return {
        "bleu": float(BLEU().corpus_score(hypotheses, references).score),
        "chrf": float(CHRF().corpus_score(hypotheses, references).score),
    }


def same_code(texts: Sequence[str], right: Sequence[tuple[str, ...]]) -> Mapping[str, float]:
    """Return the share of rows with a right program, and the share that parse as Python.

    Two programs are equal if their syntax trees are; spacing and comments do not count.
    """
    trees = [_tree(text) for text in texts]
    exact = [
        tree is not None and tree in {_tree(answer) for answer in answers}
        for tree, answers in zip(trees, right, strict=True)
    ]
    return {"exact": _mean(exact), "parses": _mean(tree is not None for tree in trees)}


def _tree(code: str) -> str | None:
    try:
        return ast.dump(ast.parse(code)) if code.strip() else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a model wrote the code
        return None


def _words(text: str) -> list[str]:
    bare = "".join(character for character in text.lower() if character not in string.punctuation)
    return _ARTICLES.sub(" ", bare).split()


def _overlap(words: Sequence[str], answer: Sequence[str]) -> float:
    if not words or not answer:
        return float(words == answer)
    both = (Counter(words) & Counter(answer)).total()
    return 2 * both / (len(words) + len(answer))


def _mean(values: Iterable[float]) -> float:
    numbers = [float(value) for value in values]
    return fmean(numbers) if numbers else 0.0
