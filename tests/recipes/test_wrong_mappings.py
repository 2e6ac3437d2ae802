"""Keys that are named wrongly: the message has the file, the key and the option to type."""

import re

import pytest
from tests.data.tokenising.test_tokenize import jsonl
from tests.golden import tiny_models, tiny_tokenizer

from hotloop.cli.main import main

PAIRS = [
    {"title": f"t{n}", "body": "b", "author": f"a{n % 3}", "kind": n % 2, "id": n}
    for n in range(20)
]
QUESTIONS = [{"q": f"q{n}", "a": f"a{n}", "id": n} for n in range(20)]
WMT = [{"translation": {"de": "Katze", "en": "cat"}}] * 20
LATE = [{"question": "q", "answer": "a"}] * 12 + [{"question": "q", "respons": "a"}]
MIXED = [{"text": "t", "label": n % 2 if n != 7 else "yes"} for n in range(20)]
FLOATS = [{"text": "t", "label": 0.5}] * 20
SQUAD = {
    "paragraphs": [{"qas": [{"question": "q", "answers": [{"text": "z", "answer_start": 0}]}]}]
}
PAIR, CHAT = ["train", "pair-classifier"], ["train", "chat-sft"]
NAMED = ["data.text_a=title", "data.label=kind"]
ROUTER = ["train", "task-router", "--out", "router"]

CASES = [
    (PAIR, PAIRS, ["data.text_a=titel", "data.label=kind"], "data.text_a=titel: .*mean title"),
    (PAIR, PAIRS, ["data.text_a=title", "data.label=knd"], "data.label=knd: .*mean kind"),
    (PAIR, PAIRS, [*NAMED, "data.text_b=bdy"], "data.text_b=bdy: .*mean body"),
    (PAIR, PAIRS, [*NAMED, "data.group=authr"], "data.group=authr: .*mean author"),
    (PAIR, PAIRS, [*NAMED, "data.report_by=authr"], "data.report_by=authr: .*mean author"),
    (PAIR, PAIRS, [], "needs text_a.*'title', 'body'.*data.text_a=KEY"),
    (PAIR, PAIRS, ["data.text_a=title"], "have no label.*data.label=KEY"),
    (PAIR, FLOATS, [], "rows.jsonl:1: key 'label' must hold a label.*not a fraction"),
    (PAIR, MIXED, [], "rows.jsonl:8: key 'label' is 'yes', but the first rows' labels are num"),
    (CHAT, QUESTIONS, ["data.prompt=question", "data.response=a"], "data.prompt=question: no row"),
    (CHAT, QUESTIONS, ["data.prompt=q"], "needs response.*'q', 'a'.*data.response=KEY"),
    (CHAT, QUESTIONS, [], "'q', 'a', 'id', none of .*data.prompt=KEY data.response=KEY"),
    (CHAT, QUESTIONS, ["data.text=id"], "rows.jsonl:1: key 'id' must hold text, not a whole num"),
    (CHAT, QUESTIONS, ["data.promt=q"], "'data.promt'; did you mean data.prompt"),
    (CHAT, [{"chat": "hello"}] * 20, [], "rows.jsonl:1: key 'chat' must hold a list of messages"),
    (CHAT, WMT, [], "data.prompt=translation.de data.response=translation.en"),
    (CHAT, WMT, ["data.prompt=translation.fr", "data.response=translation.en"], "translation.fr: "),
    (CHAT, LATE, [], "rows.jsonl:13: key 'answer' is missing; the row has 'question', 'respons'"),
    (ROUTER, [{"review": "x", "label": 1}] * 5, ["data.files.sentiment=ROWS"], "data.fields.senti"),
    (ROUTER, [SQUAD] * 2, ["data.files.questions=ROWS"], "rows.jsonl:1: .*'context' is missing"),
    (["data", "tokenize"], QUESTIONS, ["--fields", "prompt=x,response=a"], "--fields prompt=x: no"),
    (["data", "tokenize"], QUESTIONS, ["--fields", "bogus=q"], "no row has a part 'bogus'"),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return the folders of a tiny encoder and a tiny decoder, by the first words of a command."""
    folders = {}
    for name in ("bert", "qwen3"):
        folder = tmp_path_factory.mktemp(name)
        tiny_tokenizer.save(folder)
        folders[name] = tiny_models.saved(folder, name, vocab_size=400, num_hidden_layers=1)
    return {"pair-classifier": folders["bert"], "data": folders["qwen3"], "": folders["qwen3"]}


@pytest.mark.parametrize(("command", "rows", "words", "said"), CASES, ids=lambda value: None)
def test_a_wrong_mapping_is_answered_with_the_option(
    command, rows, words, said, models, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    path = jsonl(tmp_path / "rows.jsonl", rows)
    words = [word.replace("ROWS", str(path)) for word in words]
    if command[0] == "data":
        words += [str(path), "--tokenizer", str(models["data"]), "--out", "tokens"]
    else:
        model = models.get(command[1], models[""])
        words += [f"model.name={model}", "training.max_steps=1", "data.max_length=32"]
        words += [] if "files" in " ".join(words) else [f"data.path={path}"]
    assert main([*command, *words]) in (65, 78)
    text = capsys.readouterr().err.replace("\n", " ")
    assert "Traceback" not in text
    assert re.search(said, text), text
    assert not list(tmp_path.rglob("checkpoints"))  # nothing was trained
