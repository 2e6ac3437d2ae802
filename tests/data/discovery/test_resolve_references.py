import pytest
from tests.data.disks import built, repository, saved

from hotloop.data.discovery.folder_scan import FolderScan, search
from hotloop.data.discovery.library_caches import hub, made_folder
from hotloop.data.discovery.project_references import words
from hotloop.data.discovery.resolve_references import LEAST, Index, existing, is_missing


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    for name in ("d/math.jsonl", "d/code.jsonl", "d/snli/train.jsonl", "d/snli/test.jsonl"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}\n")
    return folder


@pytest.fixture
def sets(tmp_path, project):
    repository(tmp_path / "hub", "dataset", "org/name", {"train.csv": b"a\n1\n"})
    home = built(tmp_path / "cache", "json", "default-1", {"train": 1})
    saved(project / "d" / "kept", {"train": 1})
    packaged = made_folder(home, [path.name for path in home.iterdir()])
    return [*hub(tmp_path / "hub", pytest.fail), packaged, *search(project / "d", FolderScan())]


@pytest.fixture
def named(project, sets):
    """Return the ids, below the project, of what a text in a file names."""

    def find(name, text):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        index = Index(sets)
        found = words(project, pytest.fail, ids={one.id for one in sets})
        hits = set().union(*(index.named(word, project) for word in found if word.file == path))
        return {sets[n].id.removeprefix(f"{project}/d/") for n in hits}

    return find


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("data: d/math.jsonl", {"math.jsonl"}),
        ("data: ./d/../d/math.jsonl", {"math.jsonl"}),
        ("x: math.jsonl", {"math.jsonl"}),
        ("x: d/snli", {"snli"}),
        ("x: d/snli/train.jsonl", {"snli"}),
        ("x: train.jsonl", set()),
        ("x: d/kept", {"kept"}),
        ("x: d/kept/train/data-00000-of-00001.arrow", {"kept"}),
        ("data: d", {"math.jsonl", "code.jsonl", "snli", "kept"}),
        ("x: d", set()),
        ("x: 'd/*.jsonl'", {"math.jsonl", "code.jsonl", "snli"}),
        ("x: 'd/c*.jsonl'", {"code.jsonl"}),
        ("x: org/name", {"org/name"}),
        ("x: json", set()),
        ("x: d/nothing.jsonl", set()),
        ("d/math.jsonl: 0.5", {"math.jsonl"}),
    ],
)
def test_a_word_names_data_by_path_file_or_id(named, text, ids):
    assert named("a.yaml", text) == ids


def test_a_path_is_looked_for_beside_its_file_first_and_then_in_the_project(named):
    assert named("conf/deep/a.yaml", "data: ../../d/code.jsonl") == {"code.jsonl"}
    assert named("conf/a.yaml", "data: d/code.jsonl") == {"code.jsonl"}
    assert named("conf/b.yaml", "data: ../d/missing.jsonl") == set()


def test_absolute_paths_and_links_lead_to_the_same(named, project):
    (project / "link").symlink_to(project / "d")
    assert named("a.yaml", f"data: {project}/link/math.jsonl") == {"math.jsonl"}
    assert named("a.py", "open('link/code.jsonl')\nDATA = 'data'\n") == {"code.jsonl"}


def test_a_bare_name_that_two_have_names_neither(named, project, sets):
    (project / "e").mkdir()
    (project / "e" / "math.jsonl").write_text("{}\n")
    sets += search(project / "e", FolderScan())
    assert named("a.yaml", "x: math.jsonl") == set()
    assert named("a.yaml", "x: e/math.jsonl") == {f"{project}/e/math.jsonl"}


def found(project, text, name="a.yaml"):
    (project / name).write_text(text)
    return words(project, pytest.fail)


def test_what_is_named_and_there_is_searched_too(project):
    (project / "small.txt").write_text("x")
    (project / "large.txt").write_text("x" * LEAST)
    text = "data: [d/snli, d/math.jsonl, small.txt, large.txt, ., .., /]\nout_data: d/code.jsonl\n"
    there = existing(found(project, text), project)
    assert [path.relative_to(project).as_posix() for path in there] == [
        "d/snli",
        "d/math.jsonl",
        "large.txt",
    ]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("data: gone.jsonl", True),
        ("data: gone/folder", True),
        ("x: gone.jsonl", True),
        ("data: gone.txt", True),
        ("x: gone.txt", False),
        ("x: gone/folder", False),
        ("output: gone.jsonl", False),
        ("gone.jsonl: 1", False),
        ("data: gone", False),
        ("dataset: gone", False),
        ("{name: math, dataset: gone}", True),
        ("data: https://x.org/gone.jsonl", False),
        ("data: 'gone/*.jsonl'", False),
        ("data: d/math.jsonl", False),
        ("data: d", False),
    ],
)
def test_what_should_be_there_is_missing(project, text, missing):
    seen = found(project, text)
    assert any(is_missing(word, project) for word in seen) == missing


def test_what_code_names_may_be_made_by_it(project):
    assert not any(is_missing(w, project) for w in found(project, "'data/gone.csv'", "a.py"))
