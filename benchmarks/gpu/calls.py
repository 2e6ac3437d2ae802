"""The three calls: what is asked of a GPU, and how long each part may take.

The limits of a call's parts fit into it together, so no part is cut off by those before it; a spare
part takes what time they leave.
"""

from __future__ import annotations

from benchmarks.gpu.flight import Call, Part

__all__ = ["CALLS"]

_VALUES = "values are compared, and there are none: shows that the tests are found and end"
_NO_COMPILE = "compiled rungs: inductor takes minutes on the host"
_NO_NVML = "the figures of the GPU: NVML is not simulated"


def _ladders(name: str, what: str, *cases: str, limit_s: float, is_spare: bool = False) -> Part:
    return Part(
        name=name,
        what=what,
        module="ladders",
        words=cases or (name,),
        limit_s=limit_s,
        is_spare=is_spare,
        unrehearsed=_NO_COMPILE,
    )


def _part(
    name: str, what: str, module: str, *words: str, limit_s: float, unrehearsed: str | None = None
) -> Part:
    return Part(
        name=name, what=what, module=module, words=words, limit_s=limit_s, unrehearsed=unrehearsed
    )


CALLS = {
    1: Call(
        number=1,
        parts=(
            _part("facts", "the machine, and what loads", "facts", limit_s=30),
            _ladders("char-lm", "nanoGPT's shape, against the best by hand", limit_s=150),
            _part("runs", "out of memory, resuming, saving", "runs", limit_s=90),
            _part(
                "tests",
                "the tests that need a GPU",
                "gpu_tests",
                limit_s=80,
                unrehearsed=_VALUES,
            ),
            _part("ceilings", "products, copies, launches", "ceilings", limit_s=35),
            _ladders("launch-bound", "where the host limits", limit_s=70),
            _ladders("gpt2-body", "GPT-2 124M's body", limit_s=75),
            _ladders("char-lm-rungs", "what each technique adds", limit_s=240, is_spare=True),
        ),
    ),
    2: Call(
        number=2,
        parts=(
            _ladders("qwen3-lora", "Qwen3-0.6B, adapters", limit_s=105),
            _ladders("minilm-short", "MiniLM, short pairs", limit_s=80),
            _ladders("qwen3-full", "Qwen3-0.6B, all weights", limit_s=105),
            _ladders("gemma3-pairs", "Gemma-3-1B", limit_s=95),
            _ladders("router", "task-router, phase 1", limit_s=75),
            _ladders("qwen3-dora", "Qwen3-0.6B, DoRA", limit_s=70),
            _ladders("minilm-long", "MiniLM, long pairs", limit_s=80, is_spare=True),
        ),
    ),
    3: Call(
        number=3,
        parts=(
            _part("tune-script", "tune a script", "tools", "tune-script", limit_s=75),
            _part("doctor", "planted faults and innocent scripts", "doctor", limit_s=350),
            _part(
                "monitor",
                "monitor a run",
                "tools",
                "monitor",
                limit_s=35,
                unrehearsed=_NO_NVML,
            ),
            _part("tune-recipe", "tune char-lm", "tools", "tune-recipe", limit_s=70),
            Part(
                name="memory",
                what="updates in 8 bits, activations on the host",
                module="memory",
                limit_s=90,
                is_spare=True,
            ),
        ),
    ),
}
