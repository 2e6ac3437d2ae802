"""The page of a rehearsal: the answers, the step, the lines that wait, and what is not shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from hotloop.core.units import bytes_, moment
from hotloop.report.document import document
from hotloop.report.excerpt import visible, where
from hotloop.report.markup import Html, code, missing, notes, panel, table, tag
from hotloop.report.sections import facts, section

if TYPE_CHECKING:
    from hotloop.core.case.rehearsal import (
        CardDiagnosis,
        CardLine,
        LargestBatch,
        RecipePlan,
        Rehearsal,
        RehearsedRun,
        StepEstimate,
    )

__all__ = ["QUESTIONS", "batch_in_words", "estimate_in_words", "judged_in_words", "page"]

_LINES: Final = 40  # of the script
_PILLS: Final = {"yes": "complete", "no": "failed", "unknown": "stopped"}  # classes of page.css
_BY_CARD: Final = ("preset", "device", "model", "batch", "memory")
QUESTIONS: Final = {
    "starts": "does it start",
    "memory": "does it fit",
    "bf16": "bf16",
    "attention": "attention",
}


def page(result: Rehearsal) -> str:
    """Return the rehearsal as HTML."""
    name = os.path.basename(result.script) or result.script
    starts = next(one for one in result.verdicts if one.question == "starts")
    header = tag(
        "header",
        tag(
            "div", tag("h1", name, " ", tag("small", f"on a simulated {result.card}")), class_="top"
        ),
        tag(
            "div",
            tag("p", tag("strong", f"Does it start: {starts.answer}. "), f"{starts.text}."),
            tag("p", "Kernels compute nothing here: no loss and no value means anything."),
            class_=f"callout verdict {_PILLS[starts.answer]}",
        ),
        tag("div", facts(_about(result)), class_="about"),
    )
    main = tag(
        "main",
        section("Answers", panel(_answers(result))),
        *(() if (plan := result.run.plan) is None else (section("Plan", _plan(plan)),)),
        *(() if not result.run.notes else (section("Warnings", notes(result.run.notes, none="")),)),
        section("A step", _step(result.run), *_estimate(result)),
        *(() if result.run.is_recipe else (section("Lines of the script", _lines(result.run)),)),
        *(() if result.largest is None else (section("Largest batch", _batches(result.largest)),)),
        section("GPU and host", _judged(result)),
        section("Not shown by a simulated card", notes(result.not_shown, none="Nothing.")),
    )
    return document(f"{name}: rehearsal on a {result.card}", header, main)


def _about(result: Rehearsal) -> dict[str, object]:
    return {
        "command": code(" ".join(("python", *result.command))),
        "card": f"{result.card}, capability {'{}.{}'.format(*result.capability)}, "
        f"{bytes_(result.memory)}",
        "torch": result.run.torch,
        "ended": visible(result.run.ended),
    }


def _answers(result: Rehearsal) -> Html:
    rows = [
        (
            QUESTIONS.get(one.question, one.question),
            tag("span", one.answer, class_=f"pill {_PILLS[one.answer]}"),
            one.text,
            one.remedy or "",
        )
        for one in result.verdicts
    ]
    return table(("question", "answer", "why", "what to do"), rows, caption="Answers", kind="list")


def plan_facts(plan: RecipePlan) -> dict[str, str]:
    """Return what a recipe decided by the card, of the lines that hotloop train prints."""
    return {name: plan.facts[name] for name in _BY_CARD if name in plan.facts}


def _plan(plan: RecipePlan) -> Html:
    rows = [(one.technique, one.word, visible(one.how)) for one in plan.effects]
    titles = ("technique", "", "how it was read back, or why not")
    return panel(
        facts({name: visible(text) for name, text in plan_facts(plan).items()}),
        table(titles, rows, caption="Techniques", kind="list"),
    )


def estimate_in_words(found: StepEstimate) -> tuple[str, ...]:
    """Return in sentences whether the host or the card limits, and how sure that is."""
    if found.card_seconds is None:
        return (f"the card's time for a step is unknown: {found.why_not}",)
    rough = "an order of magnitude, " if found.is_rough else ""
    limit = {
        "host": "the host limits: it launches kernels more slowly than the card runs them",
        "card": "the card limits",
        None: "which of the two limits is within the error of the estimate",
    }
    unknown = f"which of the two limits is unknown: {found.why_no_limit}"
    said = [
        f"card: about {moment(found.card_seconds)} a step, {rough}estimated from FLOPs, bytes and "
        "published peaks, not measured, and without the time that each kernel takes to start "
        f"(median error {found.median_error:.0%} on {found.held_back} published throughputs held "
        f"back from the fit, at most {found.largest_error:.0%} on all {found.figures})",
        limit[found.limit] if found.why_no_limit is None else unknown,
    ]
    if found.card_from is not None:
        said.append(
            f"estimated from two batches: from a batch of about {found.card_from:,} on the card "
            "needs more time for a step than this host"
        )
    return tuple(said)


def batch_in_words(found: LargestBatch) -> tuple[str, ...]:
    """Return in sentences which batch fits, and how that is known."""
    room = f"{bytes_(found.memory)}, which leaves room for what is not shown"
    said = []
    if found.fits is not None:
        said.append(f"largest batch that was run and fits into {room}: {found.fits:,}")
    if found.fails is not None:
        said.append(f"smallest batch that was run and does not: {found.fails:,}")
    if found.why_not is not None:
        said.append(f"no larger one is known: {visible(found.why_not)}")
    return tuple(said)


def judged_in_words(found: CardDiagnosis) -> str:
    """Return what the findings rest on."""
    nothing = "" if found.findings else " found nothing"
    known = f"{found.steps} steps; the card's times are estimated, the host's measured"
    if found.raised is not None:
        known += f"; then it raised {visible(found.raised)}"
    return f"the doctor's rules on the GPU and the host{nothing} ({known})"


def _judged(result: Rehearsal) -> Html:
    if result.judged is None:
        return missing(f"Nothing is said: {result.why_not_judged}.")
    rows = [
        (
            one.severity,
            one.rule,
            visible(one.claim),
            code(", ".join(where(place, os.getcwd()) for place in one.places)),
            "; ".join(visible(remedy) for remedy in one.remedies),
        )
        for one in result.judged.findings
    ]
    titles = ("severity", "rule", "finding", "line", "what to do")
    words = tag("p", judged_in_words(result.judged))
    return panel(words, *([table(titles, rows, caption="Findings", kind="list")] if rows else []))


def _batches(found: LargestBatch) -> Html:
    words = {True: "fits", False: "out of memory", None: "unknown"}
    rows = [(f"{one.batch:,}", bytes_(one.peak_reserved), words[one.fits]) for one in found.trials]
    return panel(
        *(tag("p", text) for text in batch_in_words(found)),
        table(("batch", "reserved", "result"), rows, caption="Runs in their order", kind="list"),
    )


def _step(run: RehearsedRun) -> Html:
    raised = run.raised
    if raised is not None:
        there = "" if raised.place is None else where(raised.place, os.getcwd())
        return panel(
            facts({"it raised": code(raised.said), "at": code(f"{there}  {run.raised_code}")})
        )
    if run.host_seconds is None:
        return missing(f"No step was counted: {run.ended}.")
    seconds = sorted(step.seconds for step in run.steps)
    known: dict[str, object] = {
        "launches": f"{run.step_launches:,.0f}",
        "CUDA graphs": max(step.graphs for step in run.steps),
        "waits for the card": f"{run.step_waits:,.0f}",
        "host": f"{moment(run.host_seconds)}, median of {len(seconds)} steps after {run.warm} "
        f"({moment(seconds[0])} to {moment(seconds[-1])}), on this machine",
    }
    return panel(facts(known))


def _estimate(result: Rehearsal) -> list[Html]:
    if result.estimate is None:
        return []
    return [panel(*(tag("p", text) for text in estimate_in_words(result.estimate)))]


def _lines(run: RehearsedRun) -> Html:
    if run.why_no_lines is not None:
        return missing(f"Unknown, as {run.why_no_lines}.")
    if not run.lines:
        return missing("No step was looked at line by line.")
    rows = [_row(line) for line in run.lines[:_LINES]]
    titles = ("line", "code", "waits", "launches")
    return panel(table(titles, rows, caption="One step, line by line", kind="list"))


def _row(line: CardLine) -> tuple[object, ...]:
    place = "no line of the script" if line.place is None else where(line.place, os.getcwd())
    return code(place), code(visible(line.code)), line.waits, f"{line.launches:,}"
