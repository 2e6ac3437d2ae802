"""Turns results/scaling.json into the tables of the guide several-cards, between two marks."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["BEGIN", "END", "GUIDE", "block", "comparison", "replaced", "steps", "write"]

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "src" / "hotloop" / "cli" / "guides" / "several-cards.md"
COPY = ROOT / "docs" / "guides" / "several-cards.md"
BEGIN = "<!-- python -m benchmarks.scaling docs writes from here -->"
END = "<!-- to here -->"
GB = 1e9

Result = dict[str, Any]


def block(result: Result) -> str:
    """Return the text between the marks."""
    parts = (
        ["### A step", "", *steps(result), ""],
        ["### Memory of one GPU", "", *_memory(result), ""],
        ["### A checkpoint", "", *_checkpoints(result), ""],
        ["### Checked", "", *_published(result), "", *comparison(result), ""],
        ["### Assumptions", "", *_assumptions(result)],
    )
    return "\n".join(line for part in parts for line in part) + "\n"


def replaced(text: str, result: Result) -> str:
    """Return the guide with its marked block made anew."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{block(result)}\n{END}{tail}"


def write(result: Result) -> None:
    """Write the guide and its copy in docs/guides."""
    text = replaced(GUIDE.read_text(encoding="utf-8"), result)
    GUIDE.write_text(text, encoding="utf-8")
    COPY.write_text(text, encoding="utf-8")


def steps(result: Result) -> Iterator[str]:
    """Yield the simulated steps, a table for each model and batch."""
    fit = [row for row in result["rows"] if row["fits"]]
    widest = max((row["step_s"][2] - row["step_s"][0]) / row["step_s"][1] for row in fit)
    yield from _wrapped(
        f"Medians of {result['steps']} simulated steps; their quartiles are at most "
        f"{widest:.1%} apart. `a GPU`: micro batch x accumulation. `computing`, `sending` and "
        "`step`: ms, the first two on paper, one after the other. `waits`: the share of the step "
        "that a network without any cost would save. `eff.`: of as many times one GPU, had it "
        "the memory."
    )
    heads = ("gpus", "by", "a GPU", "computing", "sending", "step", "waits", "eff.")
    titles = dict.fromkeys((row["case"], row["samples"], row["context"]) for row in result["rows"])
    for case, samples, context in titles:
        model = result["models"][case]
        learn = shown(model["trained"] / 1e6)
        yield from ("", f"{model['name']}: {learn} M learn; {samples} samples of {context}:", "")
        of_case = [row for row in result["rows"] if row["case"] == case]
        yield from _table((*heads, "samples/s"), map(_step, of_case))
        yield from _too_large(of_case)


def _step(row: Result) -> list[str]:
    if not row["fits"]:
        return [row["cluster"], row["by"], *["-"] * 7]
    return [
        row["cluster"],
        row["by"],
        f"{row['micro_batch']} x {row['accumulation']}",
        shown(row["compute_s"] * 1e3),
        shown(row["sent_s"] * 1e3) if row["sent_s"] else "0",
        shown(row["step_s"][1] * 1e3),
        f"{row['exposed']:.0%}",
        f"{row['efficiency']:.0%}",
        shown(row["samples_per_s"]),
    ]


def _too_large(rows: Sequence[Result]) -> Iterator[str]:
    large = [
        f"{row['cluster']} ({shown(sum(row['memory'].values()) / GB)} GB a GPU)"
        for row in rows
        if not row["fits"]
    ]
    if large:
        yield from ("", f"Does not fit with a micro batch of 1: {', '.join(large)}.")


def _memory(result: Result) -> Iterator[str]:
    yield from _wrapped(
        "GB of weights, gradients, AdamW's state, and what is gathered or copied, at the most; "
        "derived. ZeRO's gradients are whole until the last backward of a step is over, those of "
        "fsdp2 with several micro batches as well, unless keep=off: then and with one it is as "
        "here. Activations come on top: the forecast before a run has them."
    )
    yield ""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for state in result["states"]:
        key = (state["model"], state["scheme"])
        found.setdefault(key, {})[state["ranks"]] = state["bytes"] / GB
    rows = [
        [model, scheme, *(shown(by_ranks[ranks]) for ranks in (8, 64))]
        for (model, scheme), by_ranks in found.items()
    ]
    yield from _table(("trained whole", "by", "8 GPUs", "64 GPUs"), rows)


def _checkpoints(result: Result) -> Iterator[str]:
    seconds: dict[str, dict[int, float]] = {}
    for row in result["rows"]:
        seconds.setdefault(row["model"], {})[row["gpus"]] = row["checkpoint_s"]
    rows = [
        [
            model["name"],
            shown(model["checkpoint_bytes"] / GB),
            *(shown(seconds[model["name"]][gpus]) for gpus in (1, 8, 64)),
        ]
        for model in result["models"].values()
    ]
    drive = result["figures"]["disk"]
    yield from _wrapped(
        "Seconds if each machine writes its ranks' shares to a drive of its own that takes "
        f"{drive['value']:g} GB/s; derived. On one shared drive it is the first column for all."
    )
    yield ""
    heads = ("", "GB", "1 GPU", "8 GPUs, 1 machine", "64 GPUs, 8 machines")
    yield from _table(heads, rows)


def _published(result: Result) -> Iterator[str]:
    found = result["published"]
    low, high = (f"{share:.1%}" for share in found["published"])
    yield from _wrapped(
        f"Against torchtitan ({found['what']}): published {low} without and {high} with "
        f"torch.compile, simulated {found['simulated']:.1%}."
    )


def comparison(result: Result) -> Iterator[str]:
    """Yield what was measured here against what was predicted."""
    found = result.get("measured")
    if found is None:
        yield "Two ranks on a CPU: not measured yet, `python -m benchmarks.scaling measured`."
        return
    others = found["others_cores"]
    busy = ", BUSY" if found["busy"] else ""
    share = min(1.0, max(0.0, found["overlapped"]))
    hidden = "" if found["busy"] else f" Of its sending {share:.0%} was hidden: no core was spare."
    yield from _wrapped(
        f"Against two ranks on a CPU, measured by `python -m benchmarks.scaling measured` "
        f"({found['machine']}; {found['what']}; {found['rounds']} rounds; others used "
        f"{others['before']:g} cores before and {others['during']:g} during the run{busy}): an "
        f"all-reduce takes {found['start_s'] * 1e6:.0f} us + bytes / "
        f"{found['bandwidth'] / GB:.2f} GB/s, a step under ddp {found['step_s'] * 1e3:.0f} ms."
        + hidden
    )
    yield ""
    rows = [
        [name, f"{seconds * 1e3:.0f} ms", f"{found['error'][name]:+.0%}"]
        for name, seconds in found["predicted_s"].items()
    ]
    yield from _table(("that step, predicted", "", "off by"), rows)


def _assumptions(result: Result) -> Iterator[str]:
    for figure in result["figures"].values():
        known = f"{figure['value']:g} {figure['unit']}".strip()
        yield from _wrapped(
            f"- {figure['what']}: {known}, {figure['source']} ({figure['where']})", hang="  "
        )


def _wrapped(text: str, hang: str = "") -> list[str]:
    return textwrap.wrap(
        text, 96, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    cells = [list(heads), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for number, line in enumerate(cells):
        yield f"| {' | '.join(c.ljust(w) for c, w in zip(line, widths, strict=True))} |".rstrip()
        if number == 0:
            yield f"|{'|'.join('-' * (width + 2) for width in widths)}|"
