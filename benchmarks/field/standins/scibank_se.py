"""Writes data/contrastive_train_3ways.json (12,600 answer pairs) and a random one-layer BERT."""

import itertools
import json
import random
import sys
from pathlib import Path

import torch
import words
from transformers import BertConfig, BertModel

if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), random.Random(0)
    known = words.made(rng, 2000)
    pairs, number = [], itertools.count()
    for question in range(20):  # all pairs of the 36 answers to each question
        topic = rng.sample(known, 150)
        asked, reference = (words.sentence(rng, topic, n) for n in (16, 12))
        answers = []
        for _ in range(36):
            label = rng.choices([0, 1, 2], [0.4, 0.1, 0.5])[0]
            text = words.sentence(rng, topic[label * 50 :], max(2, round(rng.gauss(12.5, 6))))
            answers.append((f"q{question}.{next(number)}", text, label))
        for (id_1, text_1, label_1), (id_2, text_2, label_2) in itertools.combinations(answers, 2):
            row = {"qid": f"q{question}", "student_answer_1": text_1, "student_answer_2": text_2}
            row |= {"label_id_1": label_1, "label_id_2": label_2, "id_1": id_1, "id_2": id_2}
            row |= {"label_contrastive": int(label_1 == label_2), "question": asked}
            pairs.append(row | {"reference_answer": reference})
    data, model = checkout / "data", checkout / "sentence-transformers" / "all-MiniLM-L12-v2"
    data.mkdir(exist_ok=True)
    (data / "contrastive_train_3ways.json").write_text(json.dumps(pairs))
    tokenizer = words.bert_tokenizer(known, 128)
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 128, "max_position_embeddings": 128}
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(model)
    tokenizer.save_pretrained(model)
