import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.data.discovery import project_references as module
from hotloop.data.discovery.project_references import words


@pytest.fixture
def read(tmp_path):
    """Write one file and return its words: read("a.yaml", "text", ids={...})."""

    def make(name, text, **more):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        notes = []
        found = words(tmp_path, notes.append, **more)
        assert more or notes == [], notes
        return found

    return make


def told(found):
    return {(word.text, word.line): word.name for word in found if word.is_data}


MANIFEST = """\
defaults:
  name: all
experts:
  - name: math
    data: data/math.jsonl
  - id: 7
    data:
      path: corpora/law
      num_workers: 4
  - expert: code   # before a name
    name: third
    dataset:
      name: starcoder
      files: [a.parquet, "b.csv.gz"]
"""


def test_a_manifests_entries_are_named(read):
    assert told(read("m.yaml", MANIFEST)) == {
        ("data/math.jsonl", 5): "math",
        ("corpora/law", 8): "7",
        ("a.parquet", 14): "code",
        ("b.csv.gz", 14): "code",
    }


def test_json_reads_as_yaml_does(read):
    value = {"experts": [{"name": "math", "data": "data/math.jsonl", "x": [1, None, True, {}]}]}
    for indent in (None, 1, "\t"):
        found = read("m.json", json.dumps(value, indent=indent))
        (one,) = [word for word in found if word.is_data]
        assert (one.text, one.name, one.keys) == ("data/math.jsonl", "math", ("experts", "data"))
        assert one.line == (1 if indent is None else 5)


def test_a_map_of_experts_names_them_by_its_keys(read):
    text = "experts:\n  math: a.jsonl\n  law: {data: [b.jsonl]}\nother: {math: c.jsonl}\n"
    assert told(read("m.yml", text)) == {
        ("a.jsonl", 2): "math",
        ("b.jsonl", 3): "law",
        ("c.jsonl", 4): None,
    }


def test_escapes_of_json_are_read(read):
    found = read("m.json", '{"data": "d\\u00e4ta\\/x.csv", "b": "\\ud83d\\ude00.csv"}')
    assert {word.text for word in found} == {"däta/x.csv", "😀.csv"}


@pytest.mark.parametrize(
    ("text", "is_data"),
    [
        ("data: a/b", True),
        ("train_data: a", True),
        ("data: {path: a}", True),
        ("data: {train: a/b}", True),
        ("corpus: a", True),
        ("x: a.jsonl", True),
        ("x: my files/a.csv", True),
        ("data: a b", False),
        ("x: a/b", False),
        ("model: {path: a/b}", False),
        ("metadata: a/b", False),
        ("database: a/b", False),
        ("data_type: a/b", False),
        ("data: https://x.org/a.csv", False),
        ("data: '${root}/a.csv'", False),
        ("data: '{root}/a.csv'", False),
        ("data: requirements.txt", True),
        ("x: requirements.txt", False),
    ],
)
def test_where_a_word_stands_says_whether_it_is_data(read, text, is_data):
    assert any(word.is_data for word in read("c.yaml", text)) == is_data


@pytest.mark.parametrize(
    ("key", "is_written"),
    [
        ("output_data", True),
        ("data_out", True),
        ("save.data", True),
        ("log", True),
        ("router_data", False),
    ],
)
def test_what_is_made_is_told_from_what_is_read(read, key, is_written):
    (word,) = [w for w in read("c.yaml", f"{key}: x.csv") if not w.is_key]
    assert word.is_written == is_written


def test_python_gives_its_texts_and_is_not_run(read, tmp_path):
    code = (
        "import nothing_of_this_name\n"
        f"open({str(tmp_path / 'made')!r}, 'w')\n"
        "TRAIN = 'data/train.jsonl'  # not 'data/comment.csv'\n"
        "load_dataset('imdb')\n"
        "f'{root}/data/x.csv'\n"
        "'\\d'\n"
    )
    found = read("train.py", code, ids={"imdb"})
    assert {word.text: word.line for word in found}.items() >= {
        "data/train.jsonl": 3,
        "imdb": 4,
    }.items()
    assert not any("comment" in word.text for word in found)
    assert not (tmp_path / "made").exists()


def test_an_id_counts_wherever_it_stands(read):
    found = read("c.yaml", "task: imdb\nimdb: 1\n", ids={"imdb"})
    assert [(word.text, word.line, word.is_key) for word in found] == [
        ("imdb", 1, False),
        ("imdb", 2, True),
    ]
    assert read("c.yaml", "task: imdb\nimdb: 1\n") == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "a: [\n"),
        ("a.yaml", "a: \x01data/x.csv"),
        ("a.py", "open('data/x.csv'"),
        ("a.py", "x = 'data/x.csv' \0"),
        ("a.py", "'data/x.csv'" + "(" * 5000),
    ],
)
def test_what_cannot_be_parsed_is_a_note(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    (tmp_path / "good.yaml").write_text("data: good.csv")
    notes = []
    assert [word.text for word in words(tmp_path, notes.append)] == ["good.csv"]
    (note,) = notes
    assert str(tmp_path / name) in note


def test_many_faults_are_one_note(tmp_path):
    for n in range(3):
        (tmp_path / f"{n}.yaml").write_text("a: b: c")
    notes = []
    words(tmp_path, notes.append)
    assert notes[0].endswith("0.yaml:1 and 2 more")


def test_nothing_is_built_and_no_alias_is_followed(read):
    bomb = "a: &a [x.csv, x.csv]\n" + "".join(
        f"{c}: &{c} [{', '.join([f'*{b}'] * 9)}]\n"
        for b, c in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert len(read("bomb.yaml", bomb)) == 2
    text = "data: !!python/object/apply:os.system [touch data.csv]\n"
    assert [word.text for word in read("evil.yaml", text) if "evil" in str(word.file)] == [
        "touch data.csv"
    ]


def test_deep_nesting_has_no_cost(read):
    deep = "[" * 50_000 + '"x.csv"' + "]" * 50_000
    (word,) = read("deep.json", deep)
    assert (word.text, word.name) == ("x.csv", None)


def test_bounds_hold(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 40)
    monkeypatch.setattr(module, "FILES", 3)
    monkeypatch.setattr(module, "DEPTH", 1)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "0.yaml").write_text("data: 0.csv\n" + "#" * 40)
    (tmp_path / "1.yaml").write_text("data: 1.csv\n")
    (tmp_path / "a" / "2.yaml").write_text("data: 2.csv\n")
    (tmp_path / "a" / "b" / "3.yaml").write_text("data: 3.csv\n")
    notes = []
    assert [word.text for word in words(tmp_path, notes.append)] == ["1.csv", "2.csv"]
    assert notes == []
    (tmp_path / "a" / "4.yaml").write_text("data: 4.csv\n")
    words(tmp_path, notes.append)
    assert notes == [f"only the first 3 files of {tmp_path} were read for references"]


def test_other_folders_are_not_the_projects(tmp_path):
    for folder in (".git", "node_modules", "venv", "run"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.yaml").write_text("data: a.csv")
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    (tmp_path / "run" / "run.json").write_text('{"data": "b.csv"}')
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "link.yaml").symlink_to(tmp_path / "run" / "a.yaml")
    assert words(tmp_path, pytest.fail) == []


def test_a_word_may_be_beside_its_file_or_in_the_project(read, tmp_path):
    (word,) = read("conf/c.yaml", "data: d/x.csv")
    assert word.paths(tmp_path) == [str(tmp_path / "conf/d/x.csv"), str(tmp_path / "d/x.csv")]
    assert word.there(tmp_path) == []
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.csv").touch()
    assert word.there(tmp_path) == [str(tmp_path / "d/x.csv")]
    assert word.reference(tmp_path).file == "conf/c.yaml"


@settings(max_examples=150, deadline=None)
@given(
    text=st.text('{}[]:,"\\ \n\tadt.csv', max_size=60),
    suffix=st.sampled_from(["json", "yaml", "py"]),
)
def test_any_text_can_be_read(tmp_path_factory, text, suffix):
    folder = tmp_path_factory.mktemp("p")
    (folder / f"a.{suffix}").write_text(text)
    for word in words(folder, lambda note: None):
        assert word.text
        assert 1 <= word.line <= text.count("\n") + 1
        assert isinstance(word.is_data, bool)
        assert word.name is None or word.name in text


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.sampled_from(["a.csv", "name", 'qu"ote/é.csv', "", "a/b"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["data", "name", "x/y"]), inner, max_size=3)
        ),
        max_leaves=12,
    )
)
def test_every_text_of_a_json_value_is_met_in_its_place(tmp_path_factory, value):
    def leaves(value, keys=()):
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from leaves(inner, (*keys, key))
        elif isinstance(value, list):
            for inner in value:
                yield from leaves(inner, keys)
        elif value and ("." in value or "/" in value or "data" in keys[-1:]):
            yield value, keys

    folder = tmp_path_factory.mktemp("p")
    (folder / "a.json").write_text(json.dumps({"top": value}))
    (folder / "b.yaml").write_text(json.dumps({"top": value}, ensure_ascii=False))
    found = [word for word in words(folder, pytest.fail) if not word.is_key]
    for file in ("a.json", "b.yaml"):
        mine = [(word.text, word.keys) for word in found if word.file.name == file]
        assert mine == list(leaves({"top": value}))
