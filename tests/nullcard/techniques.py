"""The rows of the matrix that add one technique to the automatic plan, or change one setting."""

from collections.abc import Iterator

from tests.nullcard.recipes import CARDS, PARTS, RECIPES, Recipe

__all__ = ["CHANGES"]

_CARD = ("rtx4090",)
_ANY = {
    "training.precision=fp32": ("training.precision=fp32",),
    "training.precision=fp16": ("training.precision=fp16",),
    "training.accumulation=4": ("training.accumulation=4",),
    "training.optim=adafactor": ("training.optim=adafactor",),
    "without fused-adamw": ("--without", "fused-adamw"),
    "without lagged-loss-read": ("--without", "lagged-loss-read"),
} | {
    f"with {use}": ("--with", use)
    for use in (
        "activation-checkpointing:mode=full",
        "activation-checkpointing:mode=selective",
        "activation-offload",
        "adamw-8bit",
        "adamw-8bit:state=host:compiled=yes",
        "async-checkpoint",
        "compile",
        "device-prefetch",
        "fp8",
        "int8-mixed-precision",
    )
}
_OF_ADAPTERS = {
    f"without {technique}": ("--without", technique)
    for technique in ("frozen-16bit", "fused-rms-norm")
}
_EACH_STEP = "loss and norm are read in each step, before the update"
_WHY = {
    "training.optim=adafactor": "torch's Adafactor reads two numbers of each parameter",
    "without fused-adamw": _EACH_STEP,
    "without lagged-loss-read": _EACH_STEP,
    "with async-checkpoint": "the thread that writes waits for the copies, the loop does not",
    "with compile": "the first validation is compiled, and the compiler waits",
}
_RECORDED = "for each shape of a batch that is new its passes are recorded, and the host waits once"
_STEPS = 120  # by then most of them are
_BASES = ("char-lm", "pair-classifier padded", "expert-sft lora packed")


def _changes() -> Iterator[Recipe]:
    for recipe in RECIPES:
        if recipe.name in _BASES:
            own = _OF_ADAPTERS if "lora" in recipe.name else {}
            for name, options in (_ANY | own).items():
                full = f"{recipe.name}, {name}"
                yield Recipe(
                    name=full,
                    options=recipe.options + options,
                    runs=recipe.runs,
                    cards=_CARD,
                    why=_WHY.get(full, _WHY.get(name, "")),
                )


def _small() -> Iterator[Recipe]:
    for recipe in RECIPES:
        if recipe.name == "chat-sft flat":
            options = ("adapter.method=none", "--with", "adamw-8bit:state=host")
            yield Recipe(
                name="chat-sft full, with adamw-8bit:state=host and trained-16bit",
                options=(*recipe.options, *options, "--with", "trained-16bit"),
                runs=recipe.runs,
                cards=_CARD,
                why="a save waits for averages that are on their way to host memory",
            )


def _replayed() -> Iterator[Recipe]:
    for recipe in RECIPES:
        steps = [f"{part}.max_steps={_STEPS}" for part in PARTS[: len(recipe.runs)]]
        yield Recipe(
            name=f"{recipe.name}, with cuda-graphs",
            options=(*recipe.options, "--with", "cuda-graphs", *steps),
            runs=recipe.runs,
            cards=CARDS,
            why=_RECORDED,
        )


CHANGES = (*_changes(), *_small(), *_replayed())
