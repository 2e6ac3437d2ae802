"""Writes datasets/cifar-10-batches-py, 260 + 52 colour pictures, and turns off its checksum."""

import sys
from pathlib import Path

import cifar

if __name__ == "__main__":
    checkout = Path(sys.argv[1])
    cifar.write(checkout / "datasets", 52, 52)
    file = checkout / "data_aug" / "contrastive_learning_dataset.py"
    line = "from torchvision import transforms, datasets\n"
    file.write_text(file.read_text().replace(line, line.strip() + cifar.LOOSE + "\n"))
