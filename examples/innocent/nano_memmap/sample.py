"""$ python sample.py config/recipes.py"""

import json
import sys

import torch

from model import GPT, GPTConfig

out_dir, start, seed = "out", "# rice and", 1
num_samples, max_new_tokens, temperature, top_k = 3, 300, 1.0, 50
for name in sys.argv[1:]:
    with open(name) as f:
        exec(f.read())

torch.manual_seed(seed)
with open(f"{out_dir}/data/meta.json") as f:
    stoi = json.load(f)["stoi"]
itos = {i: c for c, i in stoi.items()}
checkpoint = torch.load(f"{out_dir}/ckpt.pt")
model = GPT(GPTConfig(**checkpoint["model_args"]))
model.load_state_dict(checkpoint["model"])
model.eval()
x = torch.tensor([[stoi[c] for c in start]] * num_samples)
for row in model.generate(x, max_new_tokens, temperature, top_k).tolist():
    print("".join(itos[i] for i in row), "\n---------------")
