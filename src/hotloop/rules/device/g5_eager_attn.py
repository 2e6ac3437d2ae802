"""Attention is computed as product, softmax, product, and keeps a matrix of length x length.

Looks at: the recorded operators: a softmax between two matrix products, with scales, masks and
    dropout. Where none were recorded: functions of the project that contain a softmax and two
    matrix products, and "eager" attention of transformers, with the time of the forward pass spent
    there.
Says so when: an experiment measured a gain of 3 % or more by scaled_dot_product_attention on
    tensors of these shapes; without one, when attention so written takes 10 % of the wall time,
    where the backward pass is counted in proportion to the forward pass.
Stays silent when: scaled_dot_product_attention does it or is no faster, something else reads the
    weights of attention, or it takes less.
Remedy: torch.nn.functional.scaled_dot_product_attention; attn_implementation="sdpa".
Numbers: rounding; the same sum in another order.
Seen: examples/pairs/t32; examples/planted/masked_tokens.py.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    threshold as gpuprof's. On short sequences in bfloat16 on a CPU the written-out form is faster
    (page of sdpa): measure.
"""

import ast

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, code_edit
from hotloop.rules.support.costs import Site, costing, seconds_at
from hotloop.rules.support.rewrites import of_kind, rewritten
from hotloop.rules.support.syntax import Module, calls, parse

__all__ = ["RULE"]

LEAST = 0.10
PRODUCTS = ("matmul", "bmm", "einsum", "baddbmm")
WRITTEN = code_edit(
    "torch.nn.functional.scaled_dot_product_attention(q, k, v), with is_causal=True in place "
    "of a causal mask"
)
UNWEIGHTED = code_edit("nn.MultiheadAttention(...)(q, k, v, need_weights=False)")
SWITCHED = Remedy(text='attn_implementation="sdpa" for a model of transformers', technique="sdpa")


def judge(case: Case) -> Finding | None:
    """Sum the operators; without them the time of the lines, the backward pass in proportion."""
    rewrites = of_kind(case, "attention")
    if rewrites:
        remedies = [WRITTEN]
        if any(stack.passes("eager_attention_forward") for stack in case.stacks):
            remedies = [SWITCHED]
        elif any(stack.passes("multi_head_attention_forward") for stack in case.stacks):
            remedies = [UNWEIGHTED]
        return rewritten(case, rewrites, claim="attention is written out", remedies=remedies)
    eager = any(part.kind == "eager" for model in case.models for part in model.attention)
    code = parse(case.sources)
    sites = [attention_site for module in code.modules for attention_site in written_out(module)]
    eager_stacks = [
        s for s in case.stacks if s.row == "forward" and s.passes("eager_attention_forward")
    ]
    if not sites and not eager_stacks and not eager:
        return None
    forward = case.row("forward")
    seconds = seconds_at(case, sites, rows=("forward",)) + sum(s.seconds for s in eager_stacks)
    factor = 1 + case.row("backward") / forward if forward else 1.0
    share = case.part(seconds * factor)
    return costing(
        case,
        seconds * factor,
        least=LEAST,
        claim=f"attention written out takes {share:.0%} of the time",
        places=[attention_site.place for attention_site in sites],
        evidence={"in the forward pass": f"{seconds:.2f} s of {forward:.2f} s"},
        remedies=[WRITTEN, SWITCHED]
        if sites and eager_stacks
        else [WRITTEN if sites else SWITCHED],
    )


def written_out(module: Module) -> list[Site]:
    """Return the lines from the first to the last product around a softmax, per function."""
    sites = []
    for function in module.nodes:
        if not isinstance(function, ast.FunctionDef):
            continue
        nodes = list(ast.walk(function))
        soft = [node.lineno for node in calls(iter(nodes), "softmax", "Softmax")]
        lines = [node.lineno for node in calls(iter(nodes), *PRODUCTS)]
        lines += [
            node.lineno
            for node in nodes
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
        ]
        if soft and len(lines) > 1 and min(lines) <= min(soft) <= max(lines):
            sites.append(Site(file=module.path, first=min(lines), last=max(lines)))
    return sites


RULE = Rule(
    title="Attention is written out",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS, Needs.MODEL),
    under="G25",
    weight=3,
    numerics="rounding",
    experiment="attention",
    only_measured=True,
)
