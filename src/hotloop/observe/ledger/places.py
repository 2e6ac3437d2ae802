"""Chooses the line that stands for a row of the ledger."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hotloop.core.finding import SourceLocation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hotloop.core.case.steps_and_loaders import Frame, Loader

__all__ = ["Function", "Line", "Places", "place_of"]

Line = tuple[str, "tuple[Frame, ...]"]  # an operator or function, and its call chain
Function = tuple[str, str]  # file and qualified name
_Part = SourceLocation | Function

_DOMINANT = 0.75  # least share of a row that is spent below the line that stands for it
_SIMILAR, _NEAR = 0.05, 0.01  # differences of shares
_PURE = 0.9  # share from which a part of the code is spent on one row alone
_TRAINING = 0.95  # share of all steps' time: what spends it is the loop itself
_FEW = 8  # an evaluation in batches that are so many times smaller than those of training
_OF_OPERATORS = ("dead", "padding", "repeated", "recomputed", "frozen")
_OF_DATA = ("waiting for data", "evaluating")
_HOST = ("host", "unaccounted")  # Python around operators is for what they are for
_SETTINGS = {  # keyword arguments by which a library's loop is told
    "evaluating": (
        "eval_steps",
        "val_check_interval",
        "check_val_every_n_epoch",
        "eval_strategy",
    ),
    "saving": ("save_steps", "every_n_train_steps", "every_n_epochs", "save_strategy"),
    "logging": ("logging_steps", "log_every_n_steps", "logging_strategy"),
}
_OF_OUTPUTS = ("preprocess_logits_for_metrics", "compute_metrics")
_MODULE = "torch/nn/modules/module.py"
_MADE = 2  # of a tensor that may be filled row by row
_FILLED = ("full", "zeros", "ones", "new_full", "new_zeros", "new_ones")


def place_of(frames: Sequence[Frame]) -> SourceLocation | None:
    """Return the innermost line of the project's own code."""
    own = next((frame for frame in frames if frame.own), None)
    return SourceLocation(file=own.file, line=own.line) if own else None


@dataclass(slots=True, kw_only=True)
class Places:
    """What is known of a run where the lines of its rows are chosen."""

    sources: Mapping[str, str]  # texts of the project's files
    loaders: Sequence[Loader]
    evaluated: Mapping[int | None, float]  # loader -> seconds of evaluations that read it
    batches: set[Function] = field(default_factory=set)  # functions that make batches
    source: SourceLocation | None = None  # the line from which the batches come

    def choose(
        self, name: str, lines: Mapping[str, Mapping[Line, float]], steps: Collection[str]
    ) -> SourceLocation | None:
        """Return the line that stands for a row; `steps` are the rows of training."""
        loop = _loop(lines, [row for row in steps if row != name])
        place = _culprit(name, lines, loop)
        of_row = lines.get(name, {})
        if name == "padding":
            return self._padding() or self.source or place
        if name == "waiting for data":
            return self._worker(of_row) or place
        if name == "evaluating" and (built := self._small_batches()) is not None:
            return built
        if place is None or place in loop:
            return _setting(name, of_row, self.sources) or place
        return place

    def _worker(self, of_row: Mapping[Line, float]) -> SourceLocation | None:
        """Return the line of the function that workers run, if the loop mostly waits for them."""
        waits = sum(
            seconds
            for (_, frames), seconds in of_row.items()
            if any("_MultiProcessingDataLoaderIter" in frame.function for frame in frames)
        )
        if waits < _DOMINANT * sum(of_row.values()) or not waits:
            return None
        feeding = [one for one in self.loaders if one.role == "train" and one.workers]
        loader = max(feeding, key=lambda one: sum(one.waits), default=None)
        if loader is None:
            return None
        if loader.getitem is None:
            return loader.collate_place or loader.place
        return _costly(self.sources.get(loader.getitem.file, ""), loader.getitem)

    def _padding(self) -> SourceLocation | None:
        """Return the line that pads in a function that makes rows or batches, else in another."""
        reads = [one.getitem for one in self.loaders if one.role == "train" and one.getitem]
        own, classes = set(self.batches), set[Function]()
        lines, filled = [], set[Function]()
        for file, function, node in _nodes(self.sources):
            if isinstance(node, ast.FunctionDef):
                scope = "" if function == "<module>" else function
                if any(one.file == file and one.line in _head(node) for one in reads):
                    own.add((file, f"{scope}{node.name}"))
                    classes.add((file, scope))
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                filled.add((file, function))
            if (kind := _pads(node)) is not None and (line := getattr(node, "lineno", None)):
                lines.append((kind, file, line, function))
        # A tensor that is made in one size pads only if rows are written into it.
        sure = [one for one in lines if one[0] < _MADE or (one[1], one[3]) in filled]

        def rank(one: tuple[int, str, int, str]) -> tuple[int, int, str, int]:
            kind, file, line, function = one
            of_class = any(
                f == file and scope and function.startswith(scope) for f, scope in classes
            )
            return 0 if (file, function) in own else 2 - of_class, kind, file, line

        best = min(sure, key=rank, default=None)
        return None if best is None else SourceLocation(file=best[1], line=best[2])

    def _small_batches(self) -> SourceLocation | None:
        """Return where the loader was built that evaluations read in very small batches."""
        sizes = [one.batch_size for one in self.loaders if one.role == "train" and one.batch_size]
        read = max(self.evaluated, key=lambda key: self.evaluated[key], default=None)
        loader = next((one for one in self.loaders if one.key == read), None)
        if loader is None or not sizes or not loader.batch_size or loader.role == "train":
            return None
        return loader.place if loader.batch_size * _FEW <= max(sizes) else None


def _loop(lines: Mapping[str, Mapping[Line, float]], steps: Collection[str]) -> set[_Part]:
    """Return the parts of the code below which nearly all time of some rows is spent."""
    seconds: dict[_Part, float] = defaultdict(float)
    for name in steps:
        for part, (spent, _, _) in _below(lines.get(name, {})).items():
            seconds[part] += spent
    whole = sum(sum(lines[name].values()) for name in steps if name in lines)
    return {part for part, spent in seconds.items() if spent >= _TRAINING * whole}


def _culprit(
    name: str, lines: Mapping[str, Mapping[Line, float]], loop: Collection[_Part]
) -> SourceLocation | None:
    """Return the line below which a row is spent: the part of the code that is spent on it alone.

    Candidates are all lines and functions of the project below which most of the row is spent, the
    loop itself left out. The one with the largest share of this row wins. Of similar ones it is the
    innermost; but the outermost where the operators below are all of this row, because their caller
    decides what they are for. For data it is the innermost in any case.
    """
    below, whole = _below(lines.get(name, {})), sum(lines.get(name, {}).values())
    everything: dict[_Part, float] = defaultdict(float)
    for row, of_line in lines.items():
        if row != name and row in (_OF_DATA if name in _OF_DATA else _HOST):
            continue
        for part, (seconds, _, _) in _below(of_line).items():
            everything[part] += seconds
    most = [part for part, one in below.items() if one[0] >= _DOMINANT * whole]
    candidates = [part for part in most if part not in loop] or most
    if not candidates:
        return None
    purity = {part: below[part][0] / everything[part] for part in candidates if everything[part]}
    pure = max(purity.values(), default=0.0)
    outermost = name in _OF_OPERATORS and pure >= _PURE
    tolerance = _NEAR if name in _OF_OPERATORS and not outermost else _SIMILAR
    similar = [part for part in candidates if purity.get(part, 0.0) >= pure - tolerance]
    best = (max if outermost else min)(similar, key=lambda part: below[part][1])
    return max(below[best][2].items(), key=lambda one: one[1])[0]


def _below(
    of_line: Mapping[Line, float],
) -> dict[_Part, tuple[float, float, dict[SourceLocation, float]]]:
    """Return for each line and function its seconds, mean depth, and seconds of its lines."""
    seconds: dict[_Part, float] = defaultdict(float)
    depths: dict[_Part, float] = defaultdict(float)
    places: dict[_Part, dict[SourceLocation, float]] = defaultdict(lambda: defaultdict(float))
    for (_, frames), spent in of_line.items():
        seen = set[_Part]()
        for depth, frame in enumerate(frame for frame in frames if frame.own):
            place = SourceLocation(file=frame.file, line=frame.line)
            # A line lies within its function: of two equal ones, the line is meant.
            for part, level in ((place, 2 * depth), ((frame.file, frame.function), 2 * depth + 1)):
                if part not in seen:
                    seen.add(part)
                    seconds[part] += spent
                    depths[part] += level * spent
                    places[part][place] += spent
    return {
        part: (spent, depths[part] / spent if spent else 0.0, places[part])
        for part, spent in seconds.items()
    }


# Lines that are read from the code.


def _setting(
    name: str, of_row: Mapping[Line, float], sources: Mapping[str, str]
) -> SourceLocation | None:
    """Return the line that tells a library's loop when to do it, or to keep the outputs."""
    names: tuple[str, ...] = _SETTINGS.get(name, ())
    model = sum(
        seconds
        for (_, frames), seconds in of_row.items()
        if any(frame.file.replace("\\", "/").endswith(_MODULE) for frame in frames)
    )
    if name == "evaluating" and model < 0.5 * sum(of_row.values()):
        names = (*_OF_OUTPUTS, *names)
    keywords = [
        (names.index(node.arg), file, node.lineno)
        for file, _, node in _nodes(sources)
        if isinstance(node, ast.keyword) and node.arg in names
    ]
    if not keywords:
        return None
    _, file, line = min(keywords)
    return SourceLocation(file=file, line=line)


def _pads(node: ast.AST) -> int | None:
    """Return how sure it is that a node pads, 0 first; None: it does not."""
    if isinstance(node, ast.keyword) and node.arg == "padding":
        value = node.value.value if isinstance(node.value, ast.Constant) else None
        return 0 if value in ("max_length", "longest", True) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):  # [0] * (limit - len(ids))
        sides = (node.left, node.right)
        is_list = any(isinstance(side, ast.List | ast.Constant) for side in sides)
        return 1 if is_list and any(map(_lacks, sides)) else None
    if not isinstance(node, ast.Call):
        return None
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if name in ("pad", "pad_sequence", "ljust"):
        return 1
    first = node.args[0] if node.args else None
    sizes = first.elts if isinstance(first, ast.Tuple | ast.List) else node.args
    # torch.full((len(rows), limit), pad), which is then filled row by row
    return _MADE if name in _FILLED and len(sizes) > 1 and _counts(sizes[0]) else None


def _lacks(node: ast.AST) -> bool:
    """Whether a node is a limit less a length: limit - len(ids)."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and _counts(node.right)


def _counts(node: ast.AST) -> bool:
    text = ast.unparse(node)
    return text.startswith("len(") or ".size(" in text or ".shape[" in text


def _costly(text: str, function: SourceLocation) -> SourceLocation:
    """Return the first line of a loop in a function, else of its first statement."""
    for file, _, node in _nodes({function.file: text}):
        if isinstance(node, ast.FunctionDef) and function.line in _head(node):
            body = [part for part in node.body if not isinstance(part, ast.Expr)] or node.body
            loops = [part for part in body if isinstance(part, ast.For | ast.While)]
            return SourceLocation(file=file, line=(loops or body)[0].lineno)
    return function


def _head(node: ast.FunctionDef) -> range:
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    return range(first, node.lineno + 1)


def _nodes(sources: Mapping[str, str]) -> Iterator[tuple[str, str, ast.AST]]:
    """Yield every node with its file and the qualified name of its function."""
    for file, text in sources.items():
        try:
            tree = ast.parse(text)
        except SyntaxError:
            continue
        open_: list[tuple[str, ast.AST]] = [("", tree)]
        while open_:
            scope, node = open_.pop()
            yield file, scope or "<module>", node
            inner = scope
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = f"{scope}{node.name}"
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    within = f"{inner}.<locals>." if inner and not inner.endswith(".") else inner
                    if isinstance(child, ast.ClassDef):
                        open_.append((f"{within}{child.name}.", child))
                    else:
                        open_.append((within, child))
                else:
                    open_.append((inner, child))
