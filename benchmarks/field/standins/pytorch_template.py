"""Writes data/MNIST/raw/*-ubyte, 12000 + 1000 pen strokes, and config_field.json with 8 epochs."""

import json
import sys
from pathlib import Path

import mnist

if __name__ == "__main__":
    checkout = Path(sys.argv[1])
    mnist.write(checkout / "data" / "MNIST" / "raw", 12000, 1000)
    config = json.loads((checkout / "config.json").read_text())
    config["trainer"]["epochs"] = 8
    (checkout / "config_field.json").write_text(json.dumps(config, indent=4))
