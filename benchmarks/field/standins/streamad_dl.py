"""Stand-in for StreamAD-DL's data: a CPU load by the minute with spikes, and train.yaml."""

import sys
from pathlib import Path

import numpy as np

ROWS, EPOCHS = 40320, 20  # four weeks by the minute; 20 epochs, as in the repository


def main() -> None:
    """Write data/uni.csv and point train.yaml at it."""
    checkout = Path(sys.argv[1])
    (checkout / "data").mkdir(exist_ok=True)
    rng = np.random.default_rng(9)
    minute = np.arange(ROWS)
    load = 35 + 18 * np.sin(2 * np.pi * minute / 1440) + 5 * np.sin(2 * np.pi * minute / 60)
    noise = np.zeros(ROWS)
    for at in range(1, ROWS):
        noise[at] = 0.9 * noise[at - 1] + rng.normal(0, 1.5)
    load = load + noise
    for at in rng.integers(0, ROWS - 20, size=25):
        load[at : at + int(rng.integers(3, 20))] += rng.uniform(20, 40)
    load = np.clip(load, 0, 100)
    rows = [
        f"{1_650_000_000 + 60 * m},{value:.3f}\n" for m, value in zip(minute, load, strict=True)
    ]
    (checkout / "data" / "uni.csv").write_text("timestamp,metric_value\n" + "".join(rows))
    config = checkout / "train.yaml"
    text = config.read_text().replace("/root/dataset/iaas_data/uni.csv", "data/uni.csv")
    text = text.replace("'TranAD'", "'USAD'")  # TranAD fails on a newer torch
    text = text.replace("num_epochs: 20", f"num_epochs: {EPOCHS}")
    if "do_predict" not in text:  # train.py asks for it, the repository's train.yaml lacks it
        text = text.replace("  do_eval: True\n", "  do_eval: True\n  do_predict: False\n")
    config.write_text(text)


if __name__ == "__main__":
    main()
