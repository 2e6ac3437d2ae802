import numpy as np
from rich.cells import cell_len

from hotloop.recipes.building.metrics import report
from hotloop.recipes.pair_classifier.class_table import GROUPS, class_table


def test_two_classes_and_groups_as_text():
    counts = np.array([[[900, 100], [30, 70]], [[5, 5], [0, 0]]])
    text = class_table(report(counts, names=["no", "yes"], groups=["news", "forum"]))
    assert text == (
        "1,110 rows  accuracy 0.8784  F1 of 'yes' 0.5091  macro F1 0.7198  weighted F1 0.8926"
        "  Matthews 0.4683\n"
        "\n"
        "class           precision  recall      F1   rows  predicted\n"
        "no                 0.9679  0.8960  0.9306  1,010        935\n"
        "yes (positive)     0.4000  0.7000  0.5091    100        175\n"
        "\n"
        "true \\ predicted   no  yes\n"
        "no                905  105\n"
        "yes                30   70\n"
        "\n"
        "group   rows  accuracy  macro F1  weighted F1\n"
        "forum     10    0.5000    0.3333       0.6667\n"
        "news   1,100    0.8818    0.7256       0.8950"
    )


def test_what_is_undefined_is_a_dash_that_is_explained():
    text = class_table(report(np.array([[[2, 0, 0], [1, 0, 0], [0, 0, 0]]]), names=list("abc")))
    lines = text.splitlines()
    assert lines[0].endswith("Matthews -")
    assert (
        lines[1] == "macro F1 leaves out classes that occur nowhere; with 0 for them it is 0.2667"
    )
    assert lines[6].split() == ["c", "-", "-", "-", "0", "0"]
    assert lines[-1] == "-: no such rows (0/0)"


def test_where_all_is_defined_there_is_no_such_line():
    assert "no such rows" not in class_table(report(np.array([[[2, 1], [1, 2]]]), names=["a", "b"]))


def test_of_many_classes_the_matrix_is_left_out():
    names = [f"class {at}" for at in range(13)]
    text = class_table(report(np.eye(13, dtype=np.int64)[None], names=names))
    assert "true \\ predicted" not in text
    assert "confusion matrix: 13 classes, too wide to show" in text


def test_of_many_groups_the_weakest_are_shown_and_those_without_rows_come_last():
    counts = np.array([[[at, 50 - at], [0, 50]] for at in range(GROUPS + 5)])
    counts[3] = 0
    names = [f"g{at}" for at in range(len(counts))]
    lines = class_table(report(counts, names=["a", "b"], groups=names)).splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("group "))
    shown = [line.split()[0] for line in lines[first + 1 : first + 1 + GROUPS]]
    assert shown == ["g0", "g1", "g2", *(f"g{at}" for at in range(4, GROUPS + 1))]
    assert lines[first + 1 + GROUPS] == (
        "... and 5 more groups, none of them weaker: --json PATH has all"
    )


def test_names_can_neither_break_lines_nor_columns_nor_speak_to_the_terminal():
    names = ["\x1b[31mred\nblue", "\u4e2d\u6587" * 20]
    text = class_table(report(np.array([[[2, 1], [1, 2]]]), names=names, groups=["\u202egpj"]))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "?[31mred?blue" in text
    matrix = text.split("\n\n")[2].splitlines()
    assert len(matrix) == 3
    assert len({cell_len(line) for line in matrix}) == 1
