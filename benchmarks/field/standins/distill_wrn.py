"""Writes data/cifar in CIFAR-10's format and a teacher's checkpoint; the script runs on the CPU."""

import subprocess
import sys
from pathlib import Path

import cifar

TEACHER = (
    "import torch; from framework.modeling.backbone import build_model; torch.manual_seed(0); "
    "m = build_model(dict(name='wrn-16-2', num_classes=10, args=None)); "
    "torch.save({'state_dict': m.state_dict()}, 'teacher.pth.tar')"
)

if __name__ == "__main__":
    checkout = Path(sys.argv[1])
    cifar.write(checkout / "data" / "cifar", 256, 256)
    data = checkout / "framework" / "datasets" / "cifar.py"
    text = data.read_text().replace("/data/datasets/cifar", "data/cifar")
    if cifar.LOOSE not in text:
        line = "import torchvision.datasets as datasets"
        text = text.replace(line, line + cifar.LOOSE, 1)
    data.write_text(text)
    script = checkout / "train.py"
    text = script.read_text().replace('torch.device("cuda")', 'torch.device("cpu")')
    text = text.replace(".cuda(non_blocking=True)", '.to("cpu", non_blocking=True)')
    script.write_text(text.replace(".cuda()", '.to("cpu")'))
    subprocess.run([sys.executable, "-c", TEACHER], cwd=checkout, check=True)
