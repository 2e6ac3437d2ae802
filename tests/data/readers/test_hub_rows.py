import pytest

from hotloop.core.errors import DataError
from hotloop.data.readers.hub_rows import hub_command, is_hub_id
from hotloop.data.readers.sources import find_sources


@pytest.mark.parametrize(
    ("text", "is_id"),
    [
        ("owner/name", True),
        ("owner/name-1.2", True),
        ("owner/rows.jsonl", False),
        ("name", False),
        ("a/b/c", False),
        ("../name", False),
    ],
)
def test_an_id_of_the_hub_has_an_owner_and_a_name(text, is_id):
    assert is_hub_id(text) == is_id


def test_the_command_has_split_and_configuration():
    assert "load_dataset('a/b', split='train')" in hub_command("a/b")
    assert "load_dataset('a/b', 'c', split='test')" in hub_command("a/b::test::c")


def test_rows_of_the_hub_that_are_no_file_are_answered_with_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("owner/rows", str(tmp_path / "owner" / "rows")):
        with pytest.raises(DataError) as told:
            find_sources([name])
        assert hub_command("owner/rows") in str(told.value)
    with pytest.raises(DataError) as told:
        find_sources(["owner/rows.jsonl"])
    assert "load_dataset" not in str(told.value)
