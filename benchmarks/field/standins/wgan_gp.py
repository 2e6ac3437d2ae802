"""Writes data/mnist/MNIST/raw/*-ubyte in MNIST's format: 10000 + 1000 images of pen strokes."""

import sys
from pathlib import Path

import mnist

if __name__ == "__main__":
    mnist.write(Path(sys.argv[1]) / "data" / "mnist" / "MNIST" / "raw", 10000, 1000)
