"""A resumed run goes on with less than it had.

Looks at: a file from which a model got all its weights, and the next optimizer at its first step;
    the code that resumes: what it loads, what was saved in the middle of an epoch.
Says so when: the file holds the state of such an optimizer, or of such a schedule with another
    learning rate, they begin anew, and a counter of epochs or steps goes on from the file; the
    weights are loaded and the state of the optimizer, of the schedule or of a scaler in use is not,
    nor is the place in the run; or a checkpoint saved within an epoch is resumed with the next
    epoch, so that the rest of its data is left out. A note where only the code was read: this run
    did not resume.
Stays silent when: the script does not resume, a framework does, or all of it is loaded. A warm
    start: part of the weights, other settings of the optimizer, a count from zero.
Remedy: save and load optimizer, schedule, scaler, epoch and step beside the weights.
Numbers: the resumed run becomes the one that was not interrupted.
Seen: examples/planted/resumed.py.
Source: hotloop, from the five projects; "Saving and loading a general checkpoint",
    https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html
    (2026-11).
"""

from __future__ import annotations

import ast
import re

from hotloop.rules.base import Case, Finding, Needs, Rule, Severity, code_edit
from hotloop.rules.support import idioms
from hotloop.rules.support.syntax import Function, Module, ProjectCode, calls, parse

__all__ = ["RULE"]

RESUME = re.compile(r"resum", re.IGNORECASE)
POSITION = re.compile(r"epoch|step|iter|batch", re.IGNORECASE)
WITHIN = re.compile(r"step|batch|iter|skip|islice|offset", re.IGNORECASE)
# State of a script: the pattern of code that creates it, and that of the object that is loaded.
PARTS = {
    "optimizer": (re.compile(r"optim"), re.compile(r"opt", re.IGNORECASE)),
    "schedule": (
        re.compile(r"LR\(|LROnPlateau\(|WarmRestarts\(|_schedule\w*\("),
        re.compile("sched"),
    ),
    "scaler": (re.compile(r"GradScaler"), re.compile(r"scaler")),
}
GRAVE = {"optimizer", "schedule"}
REMEDY = code_edit("save and load optimizer, schedule, scaler, epoch and step beside the weights")
STATELESS = re.compile(r"last_epoch|LambdaLR")  # a schedule that gets its position from the script


def judge(case: Case) -> Finding | None:
    """Look at the starts that were seen, then at the state that the resume path loads."""
    if (finding := _seen(case)) is not None:
        return finding
    code = parse(case.sources)
    if case.framework not in ("plain", "fabric") or not code.loops:
        return None
    for module in code.modules:
        resuming = _resuming(code, module) if RESUME.search(module.text) else []
        loads = [node for part in resuming for node in calls(part, "load_state_dict")]
        if not loads:
            continue
        text = "\n".join(map(ast.unparse, resuming))
        lost = _lost(code, scaled=any(scaler.enabled for scaler in case.scalers))
        if any(loop.module is module for loop in code.loops) and not POSITION.search(text):
            lost.append("the place in the run")
        middle = _leaves_out(code, text)
        if lost or middle:
            severity: Severity = "warn" if middle or set(lost) & GRAVE else "note"
            left = "leaves out the rest of the epoch it was saved in"
            fault = f"starts without the state of: {', '.join(lost)}"
            return Finding(
                claim=f"a resumed run {' and '.join([fault] * bool(lost) + [left] * middle)}",
                severity=severity,
                places=[module.place(loads[0])],
                remedies=[REMEDY],
            )
    return None


def _seen(case: Case) -> Finding | None:
    """Return the finding of a run that went on from a file without the state that lies in it."""
    for resume in case.resumes:
        if not resume.lost or resume.counter is None:
            continue
        evidence = {"in the file": f"{', '.join(resume.lost)}, beside the weights"}
        if resume.rate != resume.saved_rate and "schedule" in resume.lost:
            evidence["learning rate"] = f"{resume.saved_rate:g} saved, now {resume.rate:g}"
        return Finding(
            claim=f"a resumed run starts without the state of: {', '.join(resume.lost)}",
            severity="warn",
            known="proved",
            places=[resume.place] if resume.place else [],
            evidence={**evidence, "goes on from the file": resume.counter},
            remedies=[REMEDY],
        )
    return None


def _resuming(code: ProjectCode, module: Module) -> list[ast.AST]:
    """Return the code that resumes: functions so named, and the bodies of such tests."""
    nodes: list[ast.AST] = []
    for node in module.nodes:
        if isinstance(node, Function) and RESUME.search(node.name):
            nodes.append(node)
        elif isinstance(node, ast.If) and RESUME.search(ast.unparse(node.test)):
            nodes += node.body
    called = {idioms.last_name(call) for part in nodes for call in ast.walk(part)} - {""}
    names = [name for name in called if re.search(r"load|restore|resum", name.lower())]
    return nodes + [f for name in names for _, f in code.functions.get(name, ()) if f not in nodes]


def _lost(code: ProjectCode, *, scaled: bool) -> list[str]:
    """Return the kinds of state that the project creates and never loads."""
    text = "\n".join(module.text for module in code.modules)
    receivers = [
        ast.unparse(call.func)
        for module in code.modules
        if "load_state_dict" in module.text
        for call in calls(module.tree, "load_state_dict")
    ]
    # Loaded in a loop over all of them: "for part in parts: part.load_state_dict(...)".
    if any(_is_looped(module) for module in code.modules):
        return []
    lost = [
        part
        for part, (created, loaded) in PARTS.items()
        if created.search(text) and not any(loaded.search(receiver) for receiver in receivers)
    ]
    idle = {"schedule"} if STATELESS.search(text) else set()
    idle |= set() if scaled else {"scaler"}
    return [part for part in lost if part not in idle]


def _is_looped(module: Module) -> bool:
    return "load_state_dict" in module.text and any(
        any(calls(part, "load_state_dict"))
        for node in module.nodes
        if isinstance(node, ast.For | ast.comprehension | ast.DictComp | ast.ListComp)
        for part in ast.iter_child_nodes(node)
        if idioms.names(part)
    )


def _leaves_out(code: ProjectCode, text: str) -> bool:
    """Whether a run saved within an epoch resumes with the next epoch."""
    if not re.search(r"epoch['\"]?\]?\)? \+ 1", text) or WITHIN.search(text):
        return False
    for loop in code.inner_loops:
        if isinstance(loop.node, ast.For) and not WITHIN.search(ast.unparse(loop.node.iter)):
            saved = idioms.saves(idioms.own(loop))
            if any("epoch" in ast.unparse(call) for call in saved):
                return True
    return False


RULE = Rule(
    title="Resuming with less than there was",
    judge=judge,
    needs=(Needs.CODE,),
    weight=3,
    numerics="training",
    kind="correctness",
    known="read",
)
