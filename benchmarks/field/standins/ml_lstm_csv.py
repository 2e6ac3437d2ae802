"""Stand-in for ML-LSTM: the repository's own sample, split as its split_dataset.py does."""

import sys
from pathlib import Path

import pandas as pd
from sklearn.model_selection import train_test_split


def main() -> None:
    """Write train_dataset.csv and test_dataset.csv of dataset_sample.csv (70 and 30 %)."""
    root = Path(sys.argv[1])
    data = pd.read_csv(root / "dataset_sample.csv")
    train, test = train_test_split(data, test_size=0.3, random_state=42)
    train.to_csv(root / "train_dataset.csv", index=False)
    test.to_csv(root / "test_dataset.csv", index=False)


if __name__ == "__main__":
    main()
