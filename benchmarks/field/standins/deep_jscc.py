"""Writes data in CIFAR-10's format (5000 + 1000 pictures) and sets the number of epochs."""

import sys
from pathlib import Path

import cifar

if __name__ == "__main__":
    checkout = Path(sys.argv[1])
    cifar.write(checkout / "dataset", 1000, 1000)
    script = checkout / "train.py"
    text = script.read_text().replace("root='../dataset/'", "root='./dataset/'")
    if cifar.LOOSE not in text:
        line = "from torchvision import datasets"
        text = text.replace(line, line + cifar.LOOSE, 1)
    script.write_text(text.replace("params['epochs'] = 1000", "params['epochs'] = 3"))
