"""Writes datasets/cifar-10-batches-py, 1600 + 320 colour pictures; three lines for new packages."""

import sys
from pathlib import Path

import cifar

IMPORT = "import torchvision.datasets as datasets\n"
APPEND = "log.append(tmp, ignore_index=True)"
REPLACED = (
    ("lib/dataset/build.py", IMPORT, IMPORT.strip() + cifar.LOOSE + "\n"),
    ("lib/utils/utils.py", "pl.loggers.LightningLoggerBase", "pl.loggers.Logger"),
    ("tools/train.py", APPEND, "pd.concat([log, tmp.to_frame().T], ignore_index=True)"),
)

if __name__ == "__main__":
    checkout = Path(sys.argv[1])
    cifar.write(checkout / "datasets", 320, 320)
    for name, old, new in REPLACED:
        file = checkout / name
        file.write_text(file.read_text().replace(old, new))
