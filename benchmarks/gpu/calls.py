"""The three calls: what is asked of a GPU, and how long each part may take."""

from __future__ import annotations

from benchmarks.gpu.flight import Call, Part

__all__ = ["CALLS"]


def _ladders(name: str, what: str, *cases: str, limit_s: float) -> Part:
    return Part(name=name, what=what, module="ladders", words=cases, limit_s=limit_s)


CALLS = {
    1: Call(
        number=1,
        parts=(
            Part(name="facts", what="the machine, and what loads", module="facts", limit_s=45),
            Part(name="tests", what="the tests that need a GPU", module="gpu_tests", limit_s=100),
            Part(name="ceilings", what="products, copies, launches", module="ceilings", limit_s=45),
            _ladders("char-lm", "nanoGPT's shape, all rungs", "char-lm", limit_s=180),
            _ladders("gpt2-body", "GPT-2 124M's body", "gpt2-body", limit_s=80),
            _ladders("launch-bound", "where the host limits", "launch-bound", limit_s=70),
            Part(
                name="runs",
                what="out of memory, resuming, saving",
                module="runs",
                limit_s=100,
            ),
        ),
    ),
    2: Call(
        number=2,
        parts=(
            _ladders("minilm", "MiniLM", "minilm-short", "minilm-long", limit_s=130),
            _ladders("qwen3", "Qwen3-0.6B", "qwen3-lora", "qwen3-dora", "qwen3-full", limit_s=220),
            _ladders("gemma3", "Gemma-3-1B", "gemma3-pairs", limit_s=90),
            _ladders("router", "task-router, phase 1", "router", limit_s=70),
            Part(name="monitor", what="monitor", module="tools", words=("monitor",), limit_s=40),
            Part(
                name="tune",
                what="tune a script, then a recipe",
                module="tools",
                words=("tune-script", "tune-recipe"),
                limit_s=200,
            ),
        ),
    ),
    3: Call(
        number=3,
        parts=(
            Part(
                name="doctor",
                what="planted faults and innocent scripts",
                module="doctor",
                limit_s=530,
            ),
        ),
    ),
}
