"""What a training step costs with hotloop's LoRA and DoRA, and with PEFT's.

taskset -c 0 python -m benchmarks.adapters [--rounds N] [--only TEXT] [--busy] [--quick]

A Qwen3 of 2 layers x 256 with random weights, adapters of rank 16 on all linear layers, 8 x 128
tokens a step, fp32, fused AdamW. A step is the forward, the loss, the backward and the update, on
one thread; the norm of DoRA is made in every step. Losses of all rows are equal but for rounding.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.measure import Bench, Goal, interleave, options
from hotloop.models.adapters.attach import attach
from hotloop.models.adapters.config import AdapterConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RANK, ALPHA, ROWS, LENGTH, VOCABULARY = 16, 32, 8, 128, 1024
STEP = "cpu ms/step"
LORA, DORA, PEFT_LORA, PEFT_DORA = "hotloop LoRA", "hotloop DoRA", "PEFT LoRA", "PEFT DoRA"
GOALS = [
    Goal(text="DoRA at most 1.15 of LoRA", row=DORA, quantity=STEP, against=LORA, limit=1.15),
    Goal(text="LoRA at most PEFT's", row=LORA, quantity=STEP, against=PEFT_LORA, limit=1.0),
    Goal(text="DoRA at most PEFT's", row=DORA, quantity=STEP, against=PEFT_DORA, limit=1.0),
]


def bare() -> Any:
    """Return the model, the same one each time."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=256,
            intermediate_size=768,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=64,
        )
    )


def ours(kind: str) -> Any:
    """Return it with adapters of hotloop."""
    model = bare()
    attach(model, AdapterConfig(kind=kind, rank=RANK, alpha=ALPHA))  # type: ignore[arg-type]
    return model


def peft(kind: str) -> Any:
    """Return it with adapters of PEFT."""
    from peft import LoraConfig, get_peft_model

    about = LoraConfig(
        r=RANK, lora_alpha=ALPHA, target_modules="all-linear", use_dora=kind == "dora"
    )
    return get_peft_model(bare(), about)


def stepping(model: Any) -> Callable[[], dict[str, float]]:
    """Return what makes one training step and times it."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    ids = torch.randint(VOCABULARY, (ROWS, LENGTH), generator=torch.Generator().manual_seed(1))
    model.train()

    def step() -> dict[str, float]:
        began = time.process_time()
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return {STEP: (time.process_time() - began) * 1e3}

    return step


def main(argv: Sequence[str] | None = None) -> None:
    """Make steps by turns."""
    chosen = options(argv, __doc__ or "")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of the peers
    bench = Bench(
        name="adapters",
        title="a training step with adapters, Qwen3 2 x 256, 1,024 tokens, fp32, one thread",
        options=chosen,
        base=LORA,
        quantities=(STEP,),
        peers=(PEFT_LORA, PEFT_DORA),
        goals=GOALS,
    )
    bench.begin()
    models = bench.gather(
        {
            LORA: lambda: ours("lora"),
            DORA: lambda: ours("dora"),
            PEFT_LORA: lambda: peft("lora"),
            PEFT_DORA: lambda: peft("dora"),
        }
    )
    rows = {name: stepping(model) for name, model in models.items()}
    bench.conclude(interleave(rows, rounds=chosen.rounds))


if __name__ == "__main__":
    main()
