"""Stand-in questions for KyloRen1/Kaggle-Quora-Insincere-Questions-Classification."""

import sys
from pathlib import Path

import numpy as np

WORDS = 4000
ENDS = ["?", "?", "?", "", "...", "!"]
FOLDERS = ["glove.840B.300d/glove.840B.300d.txt", "paragram_300_sl999/paragram_300_sl999.txt"]
KERAS_TEXT = '''"""The part of keras.preprocessing.text that the script uses."""
from collections import Counter


class Tokenizer:
    def __init__(self, num_words=None, filters="", lower=True):
        self.num_words, self.word_index = num_words, {}
        self.table = str.maketrans({c: " " for c in filters})

    def words(self, text):
        return [w for w in text.lower().translate(self.table).split(" ") if w]

    def fit_on_texts(self, texts):
        counts = Counter(w for t in texts for w in self.words(t))
        self.word_index = {w: i + 1 for i, (w, _) in enumerate(counts.most_common())}

    def texts_to_sequences(self, texts):
        return [[self.word_index[w] for w in self.words(t) if w in self.word_index] for t in texts]
'''
KERAS_SEQUENCE = '''"""The part of keras.preprocessing.sequence that the script uses."""
import numpy as np


def pad_sequences(sequences, maxlen):
    out = np.zeros((len(sequences), maxlen), dtype=np.int32)
    for row, s in zip(out, sequences):
        if s:
            row[-len(s[-maxlen:]):] = s[-maxlen:]
    return out
'''


def main() -> None:
    """Write data/{train,test}.csv (1000, 100), two vector files and the two keras modules used."""
    checkout = Path(sys.argv[1])
    rng = np.random.default_rng(29)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = sorted({"".join(rng.choice(letters, int(rng.integers(2, 10)))) for _ in range(WORDS)})
    order = rng.permutation(len(words))
    weights = 1 / np.arange(1, len(words) + 1)
    for name, rows in (("train", 1000), ("test", 100)):
        lines = ["qid,question_text" + (",target" if name == "train" else "")]
        for number in range(rows):
            length = int(np.clip(rng.lognormal(2.45, 0.5), 2, 60))
            picks = order[rng.choice(len(words), length, p=weights / weights.sum())]
            text = " ".join(words[int(i)] for i in picks).capitalize()
            text += ENDS[int(rng.integers(len(ENDS)))]
            target = f",{int(rng.random() < 0.062)}" if name == "train" else ""
            lines.append(f"{name}{number:016x},{text}{target}")
        (checkout / "data").mkdir(exist_ok=True)
        (checkout / "data" / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for folder in FOLDERS:
        path = checkout / "data" / "embeddings" / folder
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = (f"{w} {' '.join(f'{v:.5f}' for v in rng.normal(0, 0.4, 300))}" for w in words)
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    keras = checkout / "keras" / "preprocessing"
    keras.mkdir(parents=True, exist_ok=True)
    (keras / "text.py").write_text(KERAS_TEXT, encoding="utf-8")
    (keras / "sequence.py").write_text(KERAS_SEQUENCE, encoding="utf-8")
    script = checkout / "embeddings" / "utils.py"
    text = script.read_text(encoding="utf-8")
    text = text.replace(
        "np.stack(embeddings_index.values())", "np.stack([*embeddings_index.values()])"
    )
    script.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
