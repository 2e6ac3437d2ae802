"""Writes MNIST/raw/*-ubyte in MNIST's format: 96 + 16 images of pen strokes."""

import sys
from pathlib import Path

import mnist

if __name__ == "__main__":
    mnist.write(Path(sys.argv[1]) / "MNIST" / "raw", 96, 16)
