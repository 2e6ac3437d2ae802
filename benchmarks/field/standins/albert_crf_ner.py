"""Cuts the repository's own sentences to 140 (training) and 20 (dev) and writes a small random
ALBERT. The ALBERT keeps the width that main.py asks for (768) with 3 layers and a narrower
inner part, so that a step is done on one core in seconds; its weights are drawn, saved in the
repository's format.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROWS = {"train": 140, "dev": 20}


def main(checkout: Path) -> None:
    """Write data, albert_config_base.json and pretrain/pytorch/albert_base_zh."""
    for part, count in ROWS.items():
        for name in ("source.txt", "target.txt"):
            path = checkout / "data/ner_data" / part / name
            lines = path.read_text(encoding="utf-8").splitlines()
            path.write_text("\n".join(lines[:count]) + "\n", encoding="utf-8")
    source = checkout / "src"
    path = source / "albert/configs/albert_config_base.json"
    shape = json.loads(path.read_text())
    shape.update(num_hidden_layers=3, intermediate_size=768)
    path.write_text(json.dumps(shape, indent=2) + "\n")
    sys.path[:0] = [str(source)]
    import torch
    from albert.model.modeling_albert import BertConfig, BertModel

    torch.manual_seed(0)
    folder = source / "albert/pretrain/pytorch/albert_base_zh"
    folder.mkdir(parents=True, exist_ok=True)
    config = BertConfig.from_pretrained(str(path), share_type="all")
    BertModel(config).save_pretrained(str(folder))


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main(Path(sys.argv[1]))
