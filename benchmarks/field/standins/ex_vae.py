"""Writes data/MNIST/raw/*-ubyte in MNIST's format: 12000 + 2000 images of pen strokes."""

import sys
from pathlib import Path

import mnist

if __name__ == "__main__":
    mnist.write(Path(sys.argv[1]) / "data" / "MNIST" / "raw", 12000, 2000)
