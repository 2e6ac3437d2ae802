import pytest
from tests.golden.cases import SCRIPT, healthy

from hotloop.rules.support.dataset_code import method, returned, windows

CODE = """\
class Rows(Dataset):
    def __len__(self):
        if self.small:
            return 1
        return len(self.ids) - 64

    def __getitem__(self, i):
        pass
"""


def test_a_method_is_found_by_the_class_and_its_name():
    case = healthy(sources={SCRIPT: CODE})
    found = method(case, "Rows", "__getitem__")
    assert found is not None
    assert found[0].place(found[1]).line == 7
    assert method(case, "Other", "__len__") is None
    assert method(case, "Rows", "__iter__") is None


def test_the_last_return_is_the_place_and_else_the_method():
    case = healthy(sources={SCRIPT: CODE})
    lines = [returned(case, "Rows", name) for name in ("__len__", "__getitem__")]
    assert [place.line for place in lines if place] == [5, 7]


@pytest.mark.parametrize(
    ("code", "cut"),
    [
        ("rows = [ids[i : i + 64] for i in range(len(ids) - 64)]", 1),
        ("for i in range(0, n):\n    rows.append(ids[i : i + 64])", 1),
        ("rows = ids.unfold(0, 64, 1)", 1),
        ("rows = ids.unfold(0, 64, 64)", 0),
        ("rows = [ids[i : i + 64] for i in range(0, len(ids), 64)]", 0),
        ("rows = [ids[: i + 1] for i in range(9)]", 0),
    ],
)
def test_windows_one_apart_are_found(code: str, cut: int):
    assert len(windows(healthy(sources={SCRIPT: code}))) == cut
