"""Activation checkpointing: blocks keep less for the backward pass and compute it again there.

What: `full` keeps only what goes into each repeated block and runs the block again in the
    backward pass; `selective` keeps the results of matrix products and of fused attention as
    well, and runs only the cheap rest again; the T x T scores of written-out attention are
    computed again in either. `off` switches off what a model brings switched on.
Helps when: `full`, `selective`: the memory is too small for the batch, the context or the model.
    `off`: the memory is free; several popular stacks have it on by default.
Does not help when: the memory suffices: `full` computes every forward pass twice, a third more
    arithmetic. Blocks with batch norm are left out: they would count each batch twice.
Numbers: bitwise the same, also with dropout, bf16 autocast and accumulation: masks are drawn
    again from the kept state of the generators. Without that, another project's training loss
    was off by 0.3 (https://github.com/allenai/OLMo-core/pull/828). Under compile the rounding is
    compile's.
Measured: activations of one step in MiB, plain / selective / full: 529 / 327 / 113 in float32,
    297 / 167 / 66 in bf16 (char-lm's default model, micro batch 12, torch 2.13 on a CPU; forecast
    and real tensors agree to 0.1). `full` in float32: 1.36 of the step time, quartiles 1.32-1.38
    (n 12 pairs, 1 thread of an AMD EPYC; benchmarks/techniques.py); the others: not measured here.
Source: Chen et al. 2016, https://arxiv.org/abs/1604.06174; selective: Korthikanti et al. 2022,
    https://arxiv.org/abs/2205.05198
"""

from __future__ import annotations

import functools
import weakref
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide
from hotloop.session.session import ScriptSession
from hotloop.techniques.base import Numerics, Stage, Technique, keep_undo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

    from hotloop.session.session import TechniqueTarget

__all__ = ["TECHNIQUE"]

ID = "activation-checkpointing"
_OWN = ("gradient_checkpointing", "grad_checkpointing")  # flags of transformers 5.23 and timm
_KEPT = (  # operators of torch whose results `selective` keeps
    "mm",
    "addmm",
    "convolution",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_efficient_attention_forward",  # these two for packed rows: models/attention
    "_varlen_attn",
)


# Modes of a script's blocks. They get no extra attribute, because scripts save and copy them.
_OUTSIDE: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def change(
    model: nn.Module, *, mode: str = "full", through_class: bool = False
) -> list[Callable[[], object]]:
    """Change a model in place; return an undo function for each module that was changed.

    With `through_class`, change the class of the blocks instead of the blocks.
    """
    from hotloop.models.repeated_blocks import repeated_blocks

    own = [(m, flag) for m in model.modules() for flag in _OWN if getattr(m, flag, None) is True]
    blocks = [] if mode == "off" else [b for b in repeated_blocks(model) if not _counts(b)]
    if mode != "off" and not blocks:
        return []
    for module, flag in own:
        setattr(module, flag, False)
    back: list[Callable[[], object]] = [partial(setattr, m, flag, True) for m, flag in own]
    if through_class:
        if blocks:
            _watch_class(type(blocks[0]))
        _OUTSIDE.update(dict.fromkeys(blocks, mode))
        return [*back, *(partial(_OUTSIDE.pop, block) for block in blocks)]
    for block in blocks:
        block.forward = partial(_run, block, block.forward, mode)
    return [*back, *(partial(delattr, block, "forward") for block in blocks)]


def _watch_class(kind: type[nn.Module]) -> None:
    """Patch a class of blocks to check at each call whether the block must recompute."""
    plain = kind.forward
    if getattr(plain, "_hotloop", False):
        return

    @functools.wraps(plain)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (mode := _OUTSIDE.get(self)) is None:
            return plain(self, *args, **kwargs)
        return _run(self, partial(plain, self), mode, *args, **kwargs)

    forward._hotloop = True  # type: ignore[attr-defined]
    kind.forward = forward


def _counts(block: nn.Module) -> bool:
    """Whether a block keeps batch statistics, to which a second run would add each batch twice."""
    return any(getattr(module, "running_mean", None) is not None for module in block.modules())


def _run(block: nn.Module, inner: Any, mode: str, *args: Any, **kwargs: Any) -> Any:
    """Run a block's own forward; in training, checkpoint it so that autograd runs it again."""
    import torch
    from torch.utils.checkpoint import checkpoint

    if not (block.training and torch.is_grad_enabled()):
        return inner(*args, **kwargs)
    if mode == "selective":
        kwargs["context_fn"] = _contexts
    return checkpoint(inner, *args, use_reentrant=False, preserve_rng_state=True, **kwargs)


def _contexts() -> tuple[Any, Any]:
    """Return the context managers for the first and the second run of a block."""
    first, second, results = _both_modes()
    storage: Any = defaultdict(results)  # operator -> its kept results
    return first(_policy, storage), second(_policy, storage, False)


@functools.cache
def _both_modes() -> tuple[Any, Any, type]:
    """Return subclasses of torch's modes for both runs, which drop results modified in place.

    The third is the type in which they keep an operator's results: by the number of the call.

    Some layers write in place, such as adapters that add to a product and ReLU(inplace=True). For
    their kept results torch raises a RuntimeError in the second run.
    """
    from torch.utils import checkpoint

    if not hasattr(checkpoint, "_RECOMPUTE"):
        return _both_older_modes()

    def drop_written(storage: Any) -> None:
        for results in storage.values():
            for number, kept in results.items():
                if _is_written(kept):
                    results[number] = checkpoint._RECOMPUTE

    class First(checkpoint._CachingTorchDispatchMode):  # type: ignore[no-untyped-call]
        def __exit__(self, *error: object) -> None:
            super().__exit__(*error)  # type: ignore[no-untyped-call]
            drop_written(self.storage)  # at once, to free their memory

    class Second(checkpoint._CachedTorchDispatchMode):  # type: ignore[no-untyped-call]
        def __enter__(self) -> Any:
            drop_written(self.storage)  # results modified after the block
            return super().__enter__()  # type: ignore[no-untyped-call]

    return First, Second, dict


def _both_older_modes() -> tuple[Any, Any, type]:
    """Return the modes for torch 2.9 to 2.12, whose second run takes the first result of a list."""
    from torch.utils import checkpoint

    dropped: list[Any] = []

    class First(checkpoint._CachingTorchDispatchMode):  # type: ignore[no-untyped-call]
        def __exit__(self, *error: object) -> None:
            super().__exit__(*error)  # type: ignore[no-untyped-call]
            for results in self.storage.values():
                results[:] = [dropped if _is_written(kept) else kept for kept in results]

    class Second(checkpoint._CachedTorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            results = self.storage.get(func)
            if results and (results[0] is dropped or _is_written(results[0])):
                del results[0]
                return func(*args, **(kwargs or {}))
            return super().__torch_dispatch__(func, types, args, kwargs)  # type: ignore[no-untyped-call]

    return First, Second, list


def _is_written(kept: Any) -> bool:
    """Whether a tensor of a kept result has been modified since it was kept."""
    from torch.utils._pytree import tree_leaves

    saved = [leaf for leaf in tree_leaves(kept) if hasattr(leaf, "version")]
    return any(leaf.version is not None and leaf.val._version != leaf.version for leaf in saved)


def _policy(context: object, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Return whether to keep or recompute the result of an operator.

    Attention with dropout is recomputed. If it were kept, it would draw no random numbers in the
    second run, and all later dropout would draw different masks than in the first.
    """
    from torch.utils.checkpoint import CheckpointPolicy

    del context
    given = zip(operator._schema.arguments, args, strict=False)
    drawn = {**{argument.name: value for argument, value in given}, **kwargs}.get("dropout_p")
    kept = operator.overloadpacket.__name__ in _KEPT and not drawn
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def apply(session: TechniqueTarget, *, mode: str = "full") -> int:
    """Change the model; return the number of modules that changed."""
    through_class = isinstance(session, ScriptSession)
    return keep_undo(session, ID, change(session.model, mode=mode, through_class=through_class))


def read_back(session: TechniqueTarget) -> str | None:
    """Count the blocks whose forward recomputes."""
    from hotloop.models.repeated_blocks import repeated_blocks

    if ID not in session.undo:
        return None
    blocks = repeated_blocks(session.model)
    modes = [mode for b in blocks if (mode := _mode(vars(b)) or _OUTSIDE.get(b))]
    if modes:
        return f"{modes[0]}: {len(modes)} of {len(blocks)} blocks recompute"
    on = any(getattr(m, flag, None) is True for m in session.model.modules() for flag in _OWN)
    return None if on else "off: no module of the model recomputes"


def _mode(attributes: Mapping[str, Any]) -> str | None:
    forward = attributes.get("forward")
    while isinstance(forward, partial):  # another technique may be around it
        if forward.func is _run:
            return str(forward.args[2])
        forward = forward.args[1] if len(forward.args) > 1 else None
    return None


TECHNIQUE = Technique(
    id=ID,
    title="Activation checkpointing",
    stage=Stage.MODEL,
    numerics=Numerics.BITWISE,
    apply=apply,
    read_back=read_back,
    choices={"mode": ("full", "selective", "off")},
    nothing="the model has no repeated blocks without batch norm, or (mode=off) recomputes nothing",
    on_model=change,
)


hide(globals())
