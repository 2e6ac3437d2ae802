import json
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchmetrics.functional import classification as theirs

from hotloop.core.errors import ConfigError
from hotloop.recipes.building.metrics import METRICS, positive_class, report, scores


@st.composite
def judged(draw) -> tuple[int, list[int], list[int]]:
    """Classes, labels and predictions; often some classes are among neither."""
    classes = draw(st.integers(2, 6))
    used = st.sampled_from(
        draw(st.lists(st.integers(0, classes - 1), min_size=1, max_size=classes))
    )
    rows = draw(st.lists(st.tuples(used, used), min_size=1, max_size=40))
    return classes, [label for label, _ in rows], [predicted for _, predicted in rows]


def counted(classes: int, labels, predicted) -> np.ndarray:
    found = np.zeros((classes, classes), np.int64)
    for label, guess in zip(labels, predicted, strict=True):
        found[label, guess] += 1
    return found


def named(classes: int) -> list[str]:
    return [f"class {at}" for at in range(classes)]


def ratio(part: int, whole: int) -> Fraction | None:
    return Fraction(part, whole) if whole else None


def mean(values) -> Fraction | None:
    known = [value for value in values if value is not None]
    return sum(known, Fraction(0)) / len(known) if known else None


def close(value: float | None, expected: Fraction | float | None) -> bool:
    if value is None or expected is None:
        return value is expected is None
    return math.isclose(value, expected, rel_tol=1e-12, abs_tol=1e-12)


@given(case=judged())
@settings(max_examples=150)
def test_scores_are_those_of_going_through_the_rows_one_by_one(case):
    classes, labels, predicted = case
    rows = list(zip(labels, predicted, strict=True))
    found = scores(counted(*case), names=named(classes))
    f1s, recalls, support = [], [], []
    for at, each in enumerate(found.classes):
        right = sum(label == guess == at for label, guess in rows)
        precision = ratio(right, predicted.count(at))
        recall = ratio(right, labels.count(at))
        both = precision is not None and recall is not None
        f1 = Fraction(0) if predicted.count(at) or labels.count(at) else None
        if both and right:
            f1 = 2 * precision * recall / (precision + recall)
        assert each.name == f"class {at}"
        assert (each.support, each.predicted) == (labels.count(at), predicted.count(at))
        assert close(each.precision, precision)
        assert close(each.recall, recall)
        assert close(each.f1, f1)
        f1s.append(f1)
        recalls.append(recall)
        support.append(labels.count(at))
    assert found.rows == len(rows)
    assert close(found.accuracy, ratio(sum(a == b for a, b in rows), len(rows)))
    assert close(found.balanced_accuracy, mean(recalls))
    assert close(found.macro_f1, mean(f1s))
    assert close(found.macro_f1_zero_division_0, sum(f1 or 0 for f1 in f1s) / Fraction(classes))
    weighted = sum(n * f1 for n, f1 in zip(support, f1s, strict=True) if f1 is not None)
    assert close(found.weighted_f1, Fraction(weighted) / len(rows))
    assert found.confusion == tuple(map(tuple, counted(*case).tolist()))


@given(case=judged())
@settings(max_examples=150, deadline=None)
def test_scores_are_those_of_torchmetrics_which_says_0_for_what_is_undefined(case):
    classes, labels, predicted = case
    found = scores(counted(*case), names=named(classes))
    target, preds = torch.tensor(labels), torch.tensor(predicted)

    def asked(name: str, average: str | None = None):
        options = {} if name in ("confusion_matrix", "matthews_corrcoef") else {"average": average}
        function = getattr(theirs, f"multiclass_{name}")
        return function(preds, target, num_classes=classes, **options)

    assert asked("confusion_matrix").tolist() == [list(row) for row in found.confusion]
    for name, theirs_ in (("precision", "precision"), ("recall", "recall"), ("f1", "f1_score")):
        mine = [getattr(each, name) or 0.0 for each in found.classes]
        assert mine == pytest.approx(asked(theirs_, "none").tolist(), abs=1e-6)
    assert found.accuracy == pytest.approx(asked("accuracy", "micro").item(), abs=1e-6)
    assert found.macro_f1 == pytest.approx(asked("f1_score", "macro").item(), abs=1e-6)
    assert found.weighted_f1 == pytest.approx(asked("f1_score", "weighted").item(), abs=1e-6)
    if found.matthews is not None:
        assert found.matthews == pytest.approx(asked("matthews_corrcoef").item(), abs=1e-5)


@given(rows=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_of_two_classes_f1_is_that_of_the_positive_one(rows):
    labels, predicted = [label for label, _ in rows], [guess for _, guess in rows]
    found = scores(counted(2, labels, predicted), names=["no", "yes"])
    swapped = counted(2, [1 - label for label in labels], [1 - guess for guess in predicted])
    other = scores(swapped, names=["yes", "no"])
    target, preds = torch.tensor(labels), torch.tensor(predicted)
    assert (found.positive, other.positive) == ("yes", "no")
    for name, theirs_ in (
        ("f1", theirs.binary_f1_score),
        ("precision", theirs.binary_precision),
        ("recall", theirs.binary_recall),
    ):
        assert (found.value(name) or 0.0) == pytest.approx(theirs_(preds, target).item(), abs=1e-6)
        of_no = theirs_(1 - preds, 1 - target).item()
        assert (other.value(name) or 0.0) == pytest.approx(of_no, abs=1e-6)


def test_examples_of_scikit_learns_documentation_give_its_figures():
    # https://scikit-learn.org/stable/modules/generated/sklearn.metrics.f1_score.html, 2026-11
    found = scores(counted(3, [0, 1, 2, 0, 1, 2], [0, 2, 1, 0, 0, 1]), names=named(3))
    assert [each.f1 for each in found.classes] == pytest.approx([0.8, 0.0, 0.0])
    assert found.macro_f1 == pytest.approx(0.8 / 3)
    assert found.weighted_f1 == pytest.approx(0.8 / 3)
    # sklearn.metrics.matthews_corrcoef: y_true = [+1, +1, +1, -1], y_pred = [+1, -1, +1, +1]
    found = scores(counted(2, [1, 1, 1, 0], [1, 0, 1, 1]), names=["-1", "+1"])
    assert found.matthews == pytest.approx(-1 / 3)
    # sklearn.metrics.balanced_accuracy_score
    found = scores(counted(2, [0, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 1]), names=["0", "1"])
    assert found.balanced_accuracy == pytest.approx(0.625)


def test_a_class_that_occurs_nowhere_is_left_out_of_macro_f1_and_0_in_the_other_one():
    found = scores(counted(3, [0, 0, 1], [0, 0, 1]), names=named(3))
    absent = found.classes[2]
    assert (absent.precision, absent.recall, absent.f1) == (None, None, None)
    assert found.macro_f1 == 1
    assert found.macro_f1_zero_division_0 == pytest.approx(2 / 3)


def test_a_class_that_is_never_found_has_f1_0_but_no_precision():
    found = scores(counted(2, [0, 1], [0, 0]), names=named(2))
    missed = found.classes[1]
    assert (missed.precision, missed.recall, missed.f1) == (None, 0, 0)
    assert found.macro_f1 == found.macro_f1_zero_division_0 == pytest.approx(1 / 3)
    assert found.matthews is None


def test_without_rows_nothing_is_known():
    found = scores(np.zeros((2, 2), np.int64), names=["no", "yes"])
    assert found.rows == 0
    assert {metric: found.value(metric) for metric in METRICS} == dict.fromkeys(METRICS)


def test_matthews_stays_exact_where_64_bits_would_overflow():
    rows = 4_000_000_000
    found = scores(np.array([[rows, 0], [0, rows]]), names=["no", "yes"])
    assert found.matthews == 1
    assert scores(np.array([[0, rows], [rows, 0]]), names=["no", "yes"]).matthews == -1


@given(case=judged(), groups=st.integers(1, 4))
@settings(max_examples=50)
def test_a_report_of_groups_has_the_scores_of_each_and_of_their_sum(case, groups):
    classes, labels, predicted = case
    counts = np.zeros((groups, classes, classes), np.int64)
    for at, (label, guess) in enumerate(zip(labels, predicted, strict=True)):
        counts[at % groups, label, guess] += 1
    names = [f"group {at}" for at in range(groups)]
    found = report(counts, names=named(classes), groups=names)
    assert found.whole == scores(counted(*case), names=named(classes))
    assert list(found.groups) == names
    for at, name in enumerate(names):
        own = counted(classes, labels[at::groups], predicted[at::groups])
        assert found.groups[name] == scores(own, names=named(classes))


def test_json_holds_all_of_it_and_null_for_what_is_undefined():
    counts = np.array([[[3, 1], [0, 0]], [[0, 0], [0, 0]]])
    found = report(counts, names=["no", "yes"], groups=["a", "b"]).to_json()
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again["schema"] == 1
    assert again["whole"]["confusion"] == [[3, 1], [0, 0]]
    assert again["whole"]["positive"] == "yes"
    assert again["whole"]["classes"][1] == {
        "name": "yes", "precision": 0.0, "recall": None, "f1": 0.0, "support": 0, "predicted": 1,
    }  # fmt: skip
    assert again["groups"]["a"]["accuracy"] == 0.75
    assert again["groups"]["b"]["accuracy"] is None


def test_one_group_needs_no_name():
    found = report(np.array([[[3, 1], [0, 2]]]), names=["no", "yes"])
    assert found.groups == {}
    assert found.whole.rows == 6


def test_the_last_of_two_classes_is_positive():
    assert positive_class(["no", "yes"]) == "yes"
    assert positive_class(["a", "b", "c"]) is None


def test_a_metric_is_found_by_its_name():
    two = scores(np.array([[3, 1], [2, 4]]), names=["no", "yes"])
    assert two.value("f1") == two.classes[1].f1 == pytest.approx(8 / 11)
    assert two.value("recall") == pytest.approx(4 / 6)
    assert two.value("precision") == pytest.approx(4 / 5)
    assert two.value("macro_f1") == two.macro_f1
    three = scores(np.eye(3, dtype=np.int64), names=named(3))
    assert three.value("macro_f1") == three.value("matthews") == 1
    with pytest.raises(
        ConfigError, match=r"metric f1 is of the positive one of two .* are 3; take"
    ):
        three.value("f1")
    with pytest.raises(ConfigError, match=r"metric 'macrof1' is unknown; did you mean macro_f1\?"):
        three.value("macrof1")


@pytest.mark.parametrize("module", ["metrics", "baselines"])
def test_it_is_free_of_torch(module):
    code = f"import sys, hotloop.recipes.building.{module}\nsys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
