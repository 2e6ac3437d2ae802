"""Writes alpaca.csv (60 rows like Alpaca's) and gpt2-pytorch_model.bin (a random GPT-2)."""

import csv
import random
import sys
from pathlib import Path

import torch

WORDS = """
the of and a to in is you that it he was for on are as with his they I at be this have from or
one had by word but not what all were we when your can said there use an each which she do how
their if will up other about out many then them these so some her would make like him into time
has look two more write go see number no way could people my than first water been call who oil
its now find long down day did get come made may part energy system health story
""".split()  # noqa: SIM905

if __name__ == "__main__":
    checkout, rng = Path(sys.argv[1]), random.Random(0)

    def said(many):
        """Return a sentence of about so many words."""
        text = " ".join(rng.choice(WORDS) for _ in range(max(2, round(many))))
        return text[0].upper() + text[1:] + "."

    with open(checkout / "alpaca.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["instruction", "input", "output", "text"])
        for _ in range(60):
            asked, given = said(rng.gauss(11, 4)), ""
            if rng.random() < 0.4:
                given = said(rng.lognormvariate(2.2, 0.7))
            answer = said(min(120, rng.lognormvariate(2.9, 0.8)))
            table.writerow([asked, given, answer, f"{asked} {given} {answer}"])
    sys.path.insert(0, str(checkout))
    from gpt_2_Pytorch.GPT2.config import GPT2Config
    from gpt_2_Pytorch.GPT2.model import GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config())
    torch.nn.init.normal_(model.transformer.wte.weight, std=0.02)
    torch.nn.init.normal_(model.transformer.wpe.weight, std=0.01)
    torch.save(model.transformer.state_dict(), checkout / "gpt2-pytorch_model.bin")
