"""A global random seed is set again while training.

Looks at: the calls that seed in __getitem__ and in the loop over batches, and how often a seed was
    set between the first step and the last.
Says so when: a fixed seed is set in __getitem__ or at every step, so that each sample gets the same
    augmentation or each step the same dropout; or a seed that depends on the sample is set in
    __getitem__ of a loader without workers, which resets the stream that shuffles and drops out. A
    note where no seed was set there while the run was watched.
Stays silent when: a Generator of its own is seeded, the state is put back afterwards, a worker is
    seeded in worker_init_fn, or the seed of a step is computed from the step.
Remedy: seed once before training; give what must repeat a torch.Generator of its own.
Numbers: the run changes: its random numbers repeat.
Seen: examples/planted/same_noise.py.
Source: hotloop, from the five projects; "Reproducibility",
    https://docs.pytorch.org/docs/stable/notes/randomness.html (2026-11).
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, Severity, SourceLocation, code_edit
from hotloop.rules.support import idioms
from hotloop.rules.support.costs import site
from hotloop.rules.support.syntax import Module, ProjectCode, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["RULE"]

SEEDS = {
    "torch.manual_seed",
    "torch.random.manual_seed",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "numpy.random.seed",
    "random.seed",
}
BY_NAME = {"seed_everything", "set_seed", "seed_all", "fix_seed", "set_random_seed"}
PUT_BACK = ("fork_rng", "set_rng_state", "setstate", "set_state")
OFTEN = 0.5  # seeds per step

Fault = tuple[Module, ast.Call, Severity, str]


def judge(case: Case) -> Finding | None:
    """Report the first seed that repeats random numbers."""
    code = parse(case.sources)
    asynchronous = any(loader.workers for loader in case.training_loaders)
    faults = [*_in_items(code, asynchronous=asynchronous), *_in_steps(code)]
    seeds = case.process.seeds_in_step
    if faults:
        module, call, severity, claim = faults[0]
        place = module.place(call)
        lines = site(module, call)
        seen = seeds >= OFTEN * case.steps.count or any(
            lines.holds(at.file, at.line) for at in case.process.seed_places
        )
    else:
        own = [place for place in case.process.seed_places if not _is_known(code, place)]
        if not own or seeds < OFTEN * case.steps.count:
            return None
        place, severity, seen = own[0], "warn", True
        claim = f"a global seed is set {seeds} times in {case.steps.count} steps"
    return Finding(
        claim=claim,
        severity=severity,
        known="proved" if seen else "read",
        places=[place],
        evidence={"seeds set between the first step and the last": f"{seeds}"},
        remedies=[code_edit("seed once before training; give what must repeat a torch.Generator")],
    )


def _in_items(code: ProjectCode, *, asynchronous: bool) -> Iterator[Fault]:
    """Yield the seeds set while a sample is read."""
    for name in ("__getitem__", "__getitems__"):
        for module, function in code.functions.get(name, ()):
            changing = idioms.assigned(function.body) | {arg.arg for arg in function.args.args}
            for call in _seeds(module, ast.walk(function)):
                if not _arguments(call) & (changing - {"self"}):
                    yield (
                        module,
                        call,
                        "critical",
                        "a fixed seed is set at each sample that is read: all get the same "
                        "random numbers",
                    )
                elif not asynchronous:
                    yield (
                        module,
                        call,
                        "note",
                        "the global seed is set at each sample that is read, which also decides "
                        "shuffling and dropout",
                    )


def _in_steps(code: ProjectCode) -> Iterator[Fault]:
    """Yield the fixed seeds set in the loop over batches."""
    for loop in code.inner_loops:
        changing = idioms.assigned(loop.node.body) | {
            arg.arg for function in loop.functions for arg in function.args.args
        }
        if isinstance(loop.node, ast.For):
            changing |= idioms.names(loop.node.target)
        for call in _seeds(loop.module, idioms.own(loop)):
            if not _arguments(call) & changing and not _is_rare(loop.module, loop.node, call):
                yield (
                    loop.module,
                    call,
                    "critical",
                    "a fixed seed is set at every step: each has the same random numbers",
                )


def _seeds(module: Module, nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    if any(word in module.text for word in PUT_BACK):
        return
    for node in nodes:
        if isinstance(node, ast.Call):
            name = module.name(node)
            if name in SEEDS or (isinstance(node.func, ast.Name) and name in BY_NAME):
                yield node


def _arguments(call: ast.Call) -> set[str]:
    return set().union(*map(idioms.names, [*call.args, *(k.value for k in call.keywords)]))


def _is_rare(module: Module, loop: ast.AST, call: ast.Call) -> bool:
    """Whether the call stands under a condition, as in "if step == 0"."""
    above = idioms.ancestors(module.tree)
    node = above[call]
    while node is not loop:
        if isinstance(node, ast.If):
            return True
        node = above[node]
    return False


def _is_known(code: ProjectCode, place: SourceLocation) -> bool:
    """Whether the code at `place` was read and judged, or puts the state back."""
    for module in code.modules:
        if module.path == place.file:
            lines = {call.lineno for call in _seeds(module, module.nodes)}
            return place.line in lines or any(word in module.text for word in PUT_BACK)
    return False


RULE = Rule(
    title="The seed is set while training",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=3,
    numerics="training",
    kind="correctness",
    known="proved",
)
