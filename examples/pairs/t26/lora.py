import torch
import torch.nn as nn


class LoRALinear(nn.Module):
    """Linear layer with a low-rank update."""

    def __init__(self, base, r=8, alpha=16):
        super().__init__()
        self.base = base
        self.base.requires_grad_(False)
        self.A = nn.Parameter(torch.randn(r, base.in_features) / base.in_features ** 0.5)
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
        self.scale = alpha / r

    def forward(self, x):
        return self.base(x) + (x @ self.A.t() @ self.B.t()) * self.scale


def add_adapters(model, names=("q", "v"), r=8):
    model.adapters = nn.ModuleDict()
    for path, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and path.split(".")[-1] in names:
            model.adapters[path.replace(".", "_")] = LoRALinear(module, r)
    for n, p in model.named_parameters():
        p.requires_grad = n.endswith(".A") or n.endswith(".B") or n.startswith("head")
    return model
