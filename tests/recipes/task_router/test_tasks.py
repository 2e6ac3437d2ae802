"""The tasks of task-router: what their records become, and figures beside other libraries'."""

import json
import sys

import pytest
from tests.data.tokenising.test_tokenize import jsonl

from hotloop.core.errors import ConfigError, DataError, DeviceError
from hotloop.recipes.task_router.corpus import BUILT_IN, chosen_tasks, known_tasks, mixed
from hotloop.recipes.task_router.task_metrics import (
    accuracy,
    bleu_chrf,
    exact_match_f1,
    rouge,
    same_code,
)

CONTEXT = "The cat sat on the mat. It was a grey cat."
SQUAD = {
    "data": [
        {
            "title": "Cats",
            "paragraphs": [
                {
                    "context": CONTEXT,
                    "qas": [
                        {
                            "id": "1",
                            "question": "Who sat?",
                            "answers": [
                                {"text": "cat", "answer_start": 4},
                                {"text": "The cat", "answer_start": 0},
                            ],
                        },
                        {"id": "2", "question": "Who flew?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ]
}


@pytest.fixture
def folder(tmp_path):
    """Return a folder with rows of all tasks, by their usual names."""
    made = tmp_path / "data"
    for name, rows in {
        "sentiment.jsonl": [{"text": f"good {at}", "label": at % 2} for at in range(8)],
        "summaries.jsonl": [{"source": ["One.", "Two."], "target": ["1, 2", " "]}] * 3,
        "code.jsonl": [{"text": "Add.", "code": "def f(a, b):\r\n    return a + b"}] * 3,
        "translation.jsonl": [{"en": "cat", "fr": "chat"}] * 3,
    }.items():
        made.mkdir(exist_ok=True)
        jsonl(made / name, rows)
    (made / "squad.json").write_text(json.dumps(SQUAD))
    return made


def chosen(folder, *names, files=None, sizes=None):
    return chosen_tasks(str(folder), names=names, files=files or {}, sizes=sizes or {})


def test_every_task_that_has_rows_is_chosen(folder):
    assert [each.task.name for each in chosen(folder)] == list(BUILT_IN)
    (folder / "code.jsonl").unlink()
    assert "code" not in [each.task.name for each in chosen(folder)]


def test_rows_become_examples_and_stay_so(folder, tmp_path):
    found = mixed(chosen(folder), cache=tmp_path, is_decoder=True, seed=1)
    by_task = {}
    for number, example in zip(found.task.tolist(), found.examples, strict=True):
        by_task.setdefault(found.tasks[number].name, example)
    assert by_task["sentiment"].answers == ("negative",)
    question = by_task["questions"]
    assert question.answers == ("cat", "The cat")
    assert question.text[question.start :].startswith("cat")
    assert by_task["summaries"].text == "One. Two."
    assert by_task["summaries"].answers == ("1, 2",)
    assert by_task["code"].answers == ("def f(a, b):\n    return a + b",)
    rows = [json.loads(line) for line in found.file.read_text().splitlines()]
    assert {row["response"] for row in rows} >= {"negative", "positive", "cat", "chat"}
    assert rows[0]["prompt"].endswith("good 0\n")
    again = mixed(chosen(folder), cache=tmp_path, is_decoder=True, seed=1)
    assert again.file == found.file
    assert again.examples == found.examples


def test_an_encoder_reads_pairs_and_writes_no_text(folder, tmp_path):
    found = mixed(
        chosen(folder, "sentiment", "questions"), cache=tmp_path, is_decoder=False, seed=1
    )
    rows = [json.loads(line) for line in found.file.read_text().splitlines()]
    assert rows[0]["text_b"] is None
    assert (rows[-1]["text_a"], rows[-1]["text_b"]) == ("Who sat?", CONTEXT)
    with pytest.raises(DataError, match="an encoder writes no text, which summaries, code"):
        mixed(chosen(folder), cache=tmp_path, is_decoder=False, seed=1)


@pytest.mark.parametrize(
    ("task", "row", "prompt", "response"),
    [
        ("summaries", {"document": "Long.", "summary": "S"}, "Long.\nIn one sentence:\n", "S"),
        ("summaries", {"article": "A", "highlights": "H"}, "A\nIn one sentence:\n", "H"),
        ("code", {"prompt": "Add.", "code": "x", "test_list": []}, "Add.\nIn Python:\n", "x"),
        (
            "code",
            {"question": "Q", "solutions": '["y", "z"]', "difficulty": "interview"},
            "Q\nIn Python:\n",
            "y",
        ),
        ("sentiment", {"sentence": "good", "label": "1"}, None, "positive"),
        ("sentiment", {"text": "bad", "folder": "neg"}, None, "neg"),
        (
            "translation",
            {"translation": {"de": "Katze", "en": "cat"}},
            "cat\nIn German:\n",
            "Katze",
        ),
        ("translation", {"en": "cat", "ga": "cat-ga"}, "cat\nIn ga:\n", "cat-ga"),
        ("translation", {"source": "a", "target": "b"}, "a\nIn the other language:\n", "b"),
    ],
)
def test_rows_of_public_sets_are_read_by_their_own_keys(task, row, prompt, response):
    (example,) = BUILT_IN[task].read(row)
    assert example.answers == (response,)
    assert prompt is None or BUILT_IN[task].asked(example) == prompt


def test_a_folder_is_searched_for_the_rows_of_public_sets(tmp_path):
    (tmp_path / "mine").mkdir()
    jsonl(tmp_path / "mine" / "train.jsonl", [{"document": "d", "summary": "s", "id": 1}] * 3)
    jsonl(tmp_path / "sanitized.jsonl", [{"prompt": "p", "code": "c", "test_list": ["t"]}] * 3)
    (tmp_path / "train-v2.0.json").write_text(json.dumps(SQUAD))
    (tmp_path / "notes.md").write_text("nothing")
    found = {each.task.name: each.path.name for each in chosen(tmp_path)}
    assert found == {
        "questions": "train-v2.0.json",
        "summaries": "mine",
        "code": "sanitized.jsonl",
    }
    jsonl(tmp_path / "more.jsonl", [{"article": "a", "highlights": "h"}])
    with pytest.raises(DataError, match=r"task summaries in mine, more\.jsonl: data\.files\."):
        chosen(tmp_path)


def test_the_folder_of_a_text_is_part_of_what_is_kept(tmp_path):
    for name in ("neg", "pos"):
        (tmp_path / "texts" / name).mkdir(parents=True)
        for n in range(2):
            (tmp_path / "texts" / name / f"{n}.txt").write_text(f"{name} {n}")
    files = {"sentiment": str(tmp_path / "texts")}
    cache = tmp_path / "cache"
    first = mixed(chosen(tmp_path, "sentiment", files=files), cache=cache, is_decoder=True, seed=1)
    (tmp_path / "texts" / "neg").rename(tmp_path / "texts" / "negative")
    then = mixed(chosen(tmp_path, "sentiment", files=files), cache=cache, is_decoder=True, seed=1)
    assert {example.answers[0] for example in first.examples} == {"neg", "pos"}
    assert {example.answers[0] for example in then.examples} == {"negative", "pos"}


def test_keys_that_a_user_names_go_before_those_of_a_set(tmp_path):
    rows = [{"question": "Q", "solutions": '["one", "two"]', "difficulty": "x"}] * 3
    jsonl(tmp_path / "apps.jsonl", rows)
    found = mixed(
        chosen_tasks(
            None,
            names=["code"],
            files={"code": str(tmp_path / "apps.jsonl")},
            fields={"code": "text=question,code=solutions.1"},
            sizes={},
        ),
        cache=tmp_path,
        is_decoder=True,
        seed=1,
    )
    assert found.examples[0].answers == ("two",)


def test_rows_of_a_test_file_are_not_read_and_those_of_a_validation_file_are_held_out(tmp_path):
    folder = tmp_path / "sst2"
    folder.mkdir()
    for split, count in {"train": 20, "dev": 4}.items():
        rows = "".join(f"{split} {n}\t{n % 2}\n" for n in range(count))
        (folder / f"{split}.tsv").write_text(f"sentence\tlabel\n{rows}")
    (folder / "test.tsv").write_text("index\tsentence\n0\tsecret\n")
    found = mixed(chosen(tmp_path), cache=tmp_path / "cache", is_decoder=True, seed=1)
    texts = [example.text for example in found.examples]
    assert len(texts) == 24
    held = found.held_out(0.5, seed=1)
    assert [text for text, is_held in zip(texts, held, strict=True) if is_held] == [
        f"dev {n}" for n in range(4)
    ]
    assert any("test.tsv: not trained on" in note for note in found.notes)
    few = mixed(
        chosen(tmp_path, sizes={"sentiment": 10}),
        cache=tmp_path / "cache",
        is_decoder=True,
        seed=1,
    )
    assert len(few.examples) == 14


def test_a_size_draws_from_the_whole_file(folder, tmp_path):
    found = mixed(
        chosen(folder, "sentiment", sizes={"sentiment": 4}),
        cache=tmp_path,
        is_decoder=True,
        seed=3,
    )
    texts = [example.text for example in found.examples]
    assert len(texts) == 4
    assert texts == sorted(texts)
    assert texts != [f"good {at}" for at in range(4)]


def test_some_rows_of_each_task_are_held_out(folder, tmp_path):
    found = mixed(chosen(folder, "sentiment", "code"), cache=tmp_path, is_decoder=True, seed=3)
    held = found.held_out(0.25, seed=3)
    assert [int(held[found.task == number].sum()) for number in (0, 1)] == [2, 1]
    assert (held == found.held_out(0.25, seed=3)).all()
    single = mixed(chosen(folder, "questions"), cache=tmp_path, is_decoder=True, seed=3)
    with pytest.raises(DataError, match="task questions has 1 row"):
        single.held_out(0.25, seed=3)


@pytest.mark.parametrize(
    ("name", "row", "told"),
    [
        ("sentiment", {"text": "x"}, "key 'label' is None"),
        ("sentiment", {"text": " ", "label": 1}, "key 'text' is empty"),
        ("sentiment", {"label": 1}, "key 'text' is missing; the keys are label"),
        ("code", {"text": "x", "code": 3}, "key 'code' is a int, not a text"),
        (
            "translation",
            {"en": "x"},
            "a row needs en and one other language, or source and target; the keys are en",
        ),
        ("summaries", {"source": [], "target": ["x"]}, "source or target is empty"),
        (
            "questions",
            {
                "context": "abc",
                "question": "?",
                "answers": {"text": ["b"], "answer_start": [0]},
            },
            "does not stand at character 0",
        ),
    ],
)
def test_a_bad_row_is_named_with_its_place(tmp_path, name, row, told):
    file = jsonl(tmp_path / "bad.jsonl", [row])
    tasks = chosen(tmp_path, name, files={name: str(file)})
    with pytest.raises(DataError, match=r"bad\.jsonl:1") as error:
        mixed(tasks, cache=tmp_path, is_decoder=True, seed=1)
    assert told in str(error.value)


def test_tasks_that_are_not_there_are_told(folder, tmp_path):
    with pytest.raises(ConfigError, match="did you mean sentiment"):
        chosen(folder, "sentimen")
    with pytest.raises(DataError, match="task code has no rows"):
        chosen(tmp_path / "none", "code")
    with pytest.raises(DataError, match="rows of no task"):
        chosen(tmp_path / "none")


def test_squads_figures_are_those_of_torchmetrics():
    from torchmetrics.functional.text import squad

    said = ["the Cat!", "a mat", "", "grey"]
    right = [("cat", "The cat"), ("the red mat",), ("cat",), ("grey cat", "black")]
    theirs = squad(
        [{"prediction_text": text, "id": str(at)} for at, text in enumerate(said)],
        [
            {"answers": {"text": list(each), "answer_start": [0] * len(each)}, "id": str(at)}
            for at, each in enumerate(right)
        ],
    )
    ours = exact_match_f1(said, right)
    assert 100 * ours["exact_match"] == pytest.approx(float(theirs["exact_match"]))
    assert 100 * ours["f1"] == pytest.approx(float(theirs["f1"]))


def test_labels_are_right_but_for_case_and_space():
    assert accuracy([" Positive\n", "x"], [("positive",), ("negative",)]) == {"accuracy": 0.5}
    assert accuracy([], []) == {"accuracy": 0.0}


def test_programs_are_the_same_by_their_syntax():
    right = [("def f(a):\n    return a + 1",)] * 3
    said = ["def f(a):  # adds\n  return (a + 1)", "def f(a): return a + 2", "def f("]
    assert same_code(said, right) == {"exact": 1 / 3, "parses": 2 / 3}


def test_rouge_takes_the_best_answer_of_each_row():
    said = ["the cat sat", "dogs bark loudly"]
    found = rouge(said, [("a bird flew", "the cat sat"), ("dogs bark",)])
    assert found["rouge1"] == pytest.approx((1 + 2 * (2 / 3) / (5 / 3)) / 2)
    assert found["rouge2"] == pytest.approx((1 + 2 * (1 / 2) / (3 / 2)) / 2)
    assert found["rougeL"] == found["rouge1"]
    assert set(rouge([], []).values()) == {0.0}


def test_bleu_and_chrf_are_those_of_all_rows_together():
    import sacrebleu

    said = ["le chat est assis sur un tapis", "un chien"]
    right = [("le chat est assis sur le tapis",), ("un chien noir", "le chien")]
    found = bleu_chrf(said, right)
    theirs = [["le chat est assis sur le tapis", "un chien noir"], [None, "le chien"]]
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(said, theirs).score)
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(said, theirs).score)
    assert 0 < found["bleu"] < 100
    assert bleu_chrf([], []) == {"bleu": 0.0, "chrf": 0.0}


@pytest.mark.parametrize(
    ("figures", "package"),
    [(rouge, "rouge_score.rouge_scorer"), (bleu_chrf, "sacrebleu.metrics.bleu")],
)
def test_a_missing_package_is_named_with_its_remedy(monkeypatch, figures, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DeviceError, match=r"hotloop\[router\]"):
        figures(["a"], [("a",)])


MINE = """
from hotloop.recipes.task_router.task_base import Example, Task, text_of
from hotloop.recipes.task_router.task_metrics import accuracy

def read(record):
    yield Example(text=text_of(record, "shout"), answers=(text_of(record, "echo"),))

TASK = Task(
    name="echo", kind="label", read=read, prompt="{text}\\n", figures=accuracy, score="accuracy"
)
"""


def test_a_sixth_task_is_one_file(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    rows = jsonl(
        tmp_path / "rows.jsonl", [{"shout": f"a {at}", "echo": "xy"[at % 2]} for at in range(6)]
    )
    declared = str(tmp_path / "mine.py")

    def read(declared=declared):
        found = chosen_tasks(
            None, declared=declared, names=["echo"], files={"echo": str(rows)}, sizes={"echo": 4}
        )
        return mixed(found, cache=tmp_path, is_decoder=False, seed=1)

    first = read()
    assert [task.name for task in first.tasks] == ["echo"]
    assert len(first.examples) == 4
    (tmp_path / "mine.py").write_text(MINE.replace('"echo"),)', '"echo").upper(),)'))
    assert {each.answers[0] for each in read().examples} == {"X", "Y"}, "it is read anew"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "there is no file"),
        ("x = 1", "has no TASK"),
        ("1 / 0", "fails with ZeroDivisionError"),
        (MINE.replace('name="echo"', 'name="code"'), "another has that name"),
        (MINE.replace('name="echo"', 'name="a b"'), "made of letters"),
    ],
)
def test_a_declaration_that_cannot_be_used_is_refused(tmp_path, text, told):
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=told):
        known_tasks(str(file))
