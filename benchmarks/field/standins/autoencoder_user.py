"""Writes data/MNIST/raw/*-ubyte in MNIST's format: 18000 + 3000 images of pen strokes."""

import sys
from pathlib import Path

import mnist

if __name__ == "__main__":
    mnist.write(Path(sys.argv[1]) / "data" / "MNIST" / "raw", 18000, 3000)
