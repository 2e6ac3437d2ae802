"""What a step of task-router costs beside the plain ways: one row after another, the trunk again.

python -m benchmarks.router mixed|features [--rounds N] [--only TEXT] [--busy] [--quick]

A BERT of MiniLM's size with random weights, five tasks with rows as long as those of sentiment,
translation, code, questions and summaries are by MiniLM's tokenizer, in their proportions, LoRA of
rank 8 on all linear layers, fused AdamW, all cores, in bfloat16 where the CPU has units for it.
`mixed` makes training steps of 32 rows of all tasks: by PEFT row by row, once padded to 256 tokens
as the project before had them and once not at all, by PEFT with a pass for each task, and by
hotloop in one. `features` makes steps of a router on 64 rows, in float32: the frozen model computes
them at each step, or they are kept. All rows of a table see the same rows of text and begin with
the same weights; first their losses are compared, in float32.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from benchmarks.measure import FEWEST, Bench, Goal, interleave, options
from benchmarks.recipe_data import Lengths
from hotloop.machine.detect import detect
from hotloop.models.adapters.attach import adapted
from hotloop.models.adapters.config import AdapterConfig
from hotloop.models.adapters.multi_task import attach_stack
from hotloop.models.backbone import load_backbone
from hotloop.models.pooling import Pooling
from hotloop.models.routing import Router, RouterAlone
from hotloop.models.task_heads import TaskHeads
from hotloop.models.task_router import TaskRouter
from hotloop.models.weights.discovery import find_model
from hotloop.recipes.building.pretrained import isolation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

STEP, RANK, ALPHA, LIMIT, VOCABULARY, BATCHES = "ms/step", 8, 16.0, 256, 30_522, 8
# Task -> its rows' tokens, and how many of 100 rows are of it.
TASKS = {
    "sentiment": (Lengths(median=26, sigma=0.45, low=4, high=64), 45),
    "translation": (Lengths(median=30, sigma=0.5, low=6, high=90), 20),
    "code": (Lengths(median=24, sigma=0.4, low=8, high=60), 10),
    "questions": (Lengths(median=185, sigma=0.25, low=90, high=LIMIT), 12),
    "summaries": (Lengths(median=200, sigma=0.25, low=90, high=LIMIT), 13),
}
NAMES = tuple(TASKS)
OURS, EACH_PADDED = "hotloop, one pass", "PEFT, row by row, padded to 256"
EACH, BY_TASK = "PEFT, row by row", "PEFT, a pass for each task"
KEPT, AGAIN = "hotloop, features kept", "frozen model at each step"
AGAIN_PADDED = "frozen model at each step, padded to 256"
ALIKE = 0.7  # of the longest row: those that share a micro batch
CLOSE = 1e-3  # of losses, after 3 steps in float32


class Precision:
    """What forward passes compute in: float32 while losses are compared."""

    low = False  # bfloat16


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A text as tokens."""

    ids: Tensor  # [T]
    task: int
    label: int


def batches(rows: int, seed: int, *, tiny: bool = False) -> list[list[Row]]:
    """Return batches with rows of all tasks in their proportions; tiny ones are of 8 tokens."""
    drawn, made = random.Random(seed), torch.Generator().manual_seed(seed)
    lengths = {name: iter(kind.drawn(4096, seed)) for name, (kind, _) in TASKS.items()}
    found = []
    for _ in range(2 if tiny else BATCHES):
        rest = drawn.choices(NAMES, [share for _, share in TASKS.values()], k=rows - len(NAMES))
        found.append([
            Row(
                ids=torch.randint(
                    1000, VOCABULARY, (8 if tiny else next(lengths[name]),), generator=made
                ),
                task=NAMES.index(name),
                label=drawn.randrange(2),
            )
            for name in [*NAMES, *rest]
        ])  # fmt: skip
    return found


def joined(rows: Sequence[Row], width: int | None = None) -> dict[str, Tensor]:
    """Return rows as tensors, padded to a width, or to their longest."""
    wide = width or max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), wide, dtype=torch.long)
    for at, row in enumerate(rows):
        ids[at, : len(row.ids)] = row.ids
    return {
        "input_ids": ids,
        "attention_mask": torch.arange(wide) < torch.tensor([[len(r.ids)] for r in rows]),
        "task": torch.tensor([row.task for row in rows]),
        "label": torch.tensor([row.label for row in rows]),
    }


def saved(folder: Path, *, tiny: bool = False) -> Path:
    """Write the frozen model."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=24 if tiny else 384,
        num_hidden_layers=1 if tiny else 6,
        num_attention_heads=2 if tiny else 12,
        intermediate_size=48 if tiny else 1536,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def routed(folder: Path) -> TaskRouter:
    """Return hotloop's model, with adapters that are not 0."""
    torch.manual_seed(1)
    backbone = load_backbone(
        find_model(str(folder)), head=False, isolation=isolation(), weights=True, seed=1
    )
    shares = attach_stack(backbone.model, AdapterConfig(rank=RANK, alpha=ALPHA, seed=1), NAMES)
    heads = TaskHeads(backbone.width, labels=[2] * len(NAMES), spans=[False] * len(NAMES))
    pooling = Pooling("mean", width=backbone.width)
    return TaskRouter(backbone, shares, pooling, heads=heads, router=None)


class Plain(nn.Module):
    """The same with PEFT: an adapter and a head for each task."""

    def __init__(self, folder: Path, like: TaskRouter) -> None:
        """Copy the adapters and heads."""
        from peft import LoraConfig, get_peft_model
        from transformers import BertModel

        super().__init__()
        about = LoraConfig(r=RANK, lora_alpha=int(ALPHA), target_modules="all-linear")
        base = BertModel.from_pretrained(folder, add_pooling_layer=False)
        self.model: Any = get_peft_model(base, about, adapter_name=NAMES[0])
        for name in NAMES[1:]:
            self.model.add_adapter(name, about)
        self.heads = nn.ModuleList(nn.Linear(like.backbone.width, 2) for _ in NAMES)
        named = dict(self.model.base_model.model.named_modules())
        assert like.heads is not None
        assert like.heads.labels is not None
        with torch.no_grad():
            for name, layer in adapted(like.backbone.model).items():
                for number, task in enumerate(NAMES):
                    for key, value in layer.of_task(number).items():  # type: ignore[operator]
                        part = key.partition(".")[0]
                        getattr(named[name], part)[task].weight.copy_(value)
            for number, head in enumerate(self.heads):
                own = slice(2 * number, 2 * number + 2)
                head.weight.copy_(like.heads.labels.weight[own])
                head.bias.copy_(like.heads.labels.bias[own])

    def trained(self) -> list[Tensor]:
        """Return what is trained: PEFT lets only the active adapter's weights learn."""
        return [p for n, p in self.named_parameters() if "lora_" in n or n.startswith("heads.")]

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the sum of the losses of rows of one task."""
        task = int(batch["task"][0])
        self.model.set_adapter(NAMES[task])
        mask = batch["attention_mask"]
        hidden = self.model(
            input_ids=batch["input_ids"], attention_mask=mask.long()
        ).last_hidden_state
        pooled = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return cross_entropy(self.heads[task](pooled), batch["label"], reduction="sum")


def _stepping(
    trained: Sequence[Tensor], given: Sequence[Any], losses: Callable[[Any], Sequence[Tensor]]
) -> Callable[[], dict[str, float]]:
    """Return what makes a training step on the next batch, and times it."""
    optimizer, turn = torch.optim.AdamW(trained, lr=1e-4, fused=True), 0

    def step() -> dict[str, float]:
        nonlocal turn
        began, total = time.perf_counter(), 0.0
        parts = iter(losses(given[turn % len(given)]))
        while True:
            with torch.autocast("cpu", torch.bfloat16, enabled=Precision.low):
                loss = next(parts, None)
            if loss is None:
                break
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad()
        turn += 1
        return {STEP: (time.perf_counter() - began) * 1e3, "loss": total}

    return step


def by_peft(
    folder: Path, given: Sequence[Sequence[Row]], *, width: int | None, by_task: bool
) -> Callable[[], dict[str, float]]:
    """Return a step of PEFT, row by row or task by task."""
    model, count = Plain(folder, routed(folder)), len(given[0])
    model.train()

    def losses(rows: Sequence[Row]) -> Any:
        groups = [[row] for row in rows]
        if by_task:
            groups = [[row for row in rows if row.task == task] for task in range(len(NAMES))]
        for group in groups:
            yield model(joined(group, width)) / count

    return _stepping(model.trained(), given, losses)


def by_hotloop(folder: Path, given: Sequence[Sequence[Row]]) -> Callable[[], dict[str, float]]:
    """Return a step of hotloop: rows of like length in micro batches of as many tokens."""
    model = routed(folder).train()
    trained = [each for each in model.parameters() if each.requires_grad]

    def losses(rows: Sequence[Row]) -> Any:
        ordered = sorted(rows, key=lambda row: -len(row.ids))
        while ordered:
            longest = len(ordered[0].ids)
            count = sum(len(row.ids) >= ALIKE * longest for row in ordered)
            count = min(count, max(1, 16 * LIMIT // longest))
            part, ordered = ordered[:count], ordered[count:]
            batch = joined(part)
            nothing = torch.full((len(part),), -1)
            batch |= dict.fromkeys(("start", "end", "first"), nothing)
            yield model.loss(batch) * (len(part) / len(rows))

    return _stepping(trained, given, losses)


def of_router(
    folder: Path, given: Sequence[Sequence[Row]], *, width: int | None, keeps: bool
) -> Callable[[], dict[str, float]]:
    """Return a step of the router, on features that are kept or computed."""
    trunk = routed(folder).eval()
    torch.manual_seed(2)
    router = RouterAlone(Router(trunk.features_width, len(NAMES))).train()

    def features(rows: Sequence[Row]) -> dict[str, Tensor]:
        batch = joined(rows, width)
        return {"features": trunk.features(batch), "task": batch["task"]}

    def losses(rows: Any) -> Any:
        batch = rows if keeps else features(rows)
        yield cross_entropy(router(batch), batch["task"])

    made: Sequence[Any] = [features(rows) for rows in given] if keeps else given
    return _stepping([*router.parameters()], made, losses)


def main(argv: Sequence[str]) -> None:
    """Make steps by turns."""
    if not argv or argv[0] not in ("mixed", "features"):
        sys.exit(__doc__)
    what, chosen = argv[0], options(argv[1:], __doc__ or "", rounds=FEWEST)
    warnings.simplefilter("ignore")  # of the peers
    mixed = what == "mixed"
    rows, base = (32, OURS) if mixed else (64, KEPT)
    given = batches(rows, seed=3, tiny=chosen.quick)
    goals = [
        Goal(text=text, row=base, quantity=STEP, against=against, limit=limit)
        for text, against, limit in (
            [
                ("half of row by row, padded as before", EACH_PADDED, 0.5),
                ("half of row by row", EACH, 0.5),
                ("less than a pass for each task", BY_TASK, 1.0),
            ]
            if mixed
            else [("a fifth of the frozen model at each step", AGAIN, 0.2)]
        )
    ]
    can_low = "avx512_bf16" in detect("cpu").cpu_features
    how = "bf16" if mixed and can_low else "fp32"
    bench = Bench(
        name=f"router-{what}",
        title=f"a step of task-router, {rows} rows of five tasks, BERT 6 x 384, {how}",
        options=chosen,
        base=base,
        quantities=(STEP,),
        peers=(EACH_PADDED, EACH, BY_TASK),
        goals=goals,
    )
    bench.begin()
    with tempfile.TemporaryDirectory() as place:
        folder = saved(Path(place), tiny=chosen.quick)
        makers: dict[str, Callable[[], Callable[[], dict[str, float]]]] = {
            OURS: lambda: by_hotloop(folder, given),
            EACH_PADDED: lambda: by_peft(folder, given, width=LIMIT, by_task=False),
            EACH: lambda: by_peft(folder, given, width=None, by_task=False),
            BY_TASK: lambda: by_peft(folder, given, width=None, by_task=True),
        }
        if not mixed:
            makers = {
                KEPT: lambda: of_router(folder, given, width=None, keeps=True),
                AGAIN: lambda: of_router(folder, given, width=None, keeps=False),
                AGAIN_PADDED: lambda: of_router(folder, given, width=LIMIT, keeps=False),
            }
        steps = bench.gather(makers)
        bench.notes.append(same(steps))
        Precision.low = mixed and can_low
        timed = {name: _without_loss(step) for name, step in steps.items()}
        bench.conclude(interleave(timed, rounds=chosen.rounds))


def same(steps: dict[str, Callable[[], dict[str, float]]]) -> str:
    """Return how far the losses of the first steps are apart; exit where it is more than noise."""
    found = {name: [step()["loss"] for _ in range(3)] for name, step in steps.items()}
    first = next(iter(found.values()))
    apart = max(abs(a - b) for each in found.values() for a, b in zip(each, first, strict=True))
    if not apart <= CLOSE:
        sys.exit(f"losses differ by {apart:.2g}: {found}")
    course = f"{first[0]:.5f} to {first[-1]:.5f}"
    return f"losses of the first 3 steps, {course}, differ by {apart:.1e} at most"


def _without_loss(step: Callable[[], dict[str, float]]) -> Callable[[], dict[str, float]]:
    return lambda: {STEP: step()[STEP]}


if __name__ == "__main__":
    main(sys.argv[1:])
