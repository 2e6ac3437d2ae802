from hotloop.recipes.sft.manifest_answers import Answer, AnswerCollector, ManifestField


def collector() -> AnswerCollector:
    lora = ManifestField(key="lora_r", place="m.json:3", raw=16, value=16)
    null = ManifestField(key="lr", place="m.json:4", raw=None, value=None)
    return AnswerCollector({"rank": lora, "learning_rate": null})


def test_an_answer_says_where_what_and_why() -> None:
    field = ManifestField(key="targets", place="m.json:2", raw=["a", "b"], value="a,b")
    answer = Answer(
        field=field, word="in effect", why="layers", settings={"x.y": "a,b", "x.z": None}
    )
    assert answer.text == "m.json:2: targets=['a', 'b']: in effect as x.y=a,b, x.z=null: layers"
    idle = Answer(field=field, word="not needed here", why="no layers", settings={})
    assert idle.text == "m.json:2: targets=['a', 'b']: not needed here: no layers"


def test_an_answer_is_one_printable_line_whatever_the_key() -> None:
    field = ManifestField(key="\x1b[31m", place="m.json:1", raw="\n", value="\n")
    assert Answer(field=field, word="refused", why="no", settings={}).text.isprintable()


def test_a_field_that_is_absent_or_null_gets_no_answer_of_a_rule() -> None:
    answers = collector()
    for name in ("alpha", "learning_rate"):
        answers.effect(name, "on", {"a.b": 1})
        answers.idle(name, "off")
        answers.refuse(name, "no")
        assert answers.value(name) is None
    assert answers.answers == {}
    answers.unset("learning_rate", "null")
    assert answers.answers["learning_rate"].word == "not needed here"


def test_each_word_is_kept_with_its_reason() -> None:
    answers = collector()
    answers.effect("rank", "on", {"adapter.rank": 16})
    assert (answers.answers["rank"].word, answers.answers["rank"].settings) == (
        "in effect",
        {"adapter.rank": 16},
    )
    answers.idle("rank", "off")
    assert (answers.answers["rank"].word, answers.answers["rank"].why) == ("not needed here", "off")
    answers.refuse("rank", "no")
    assert answers.answers["rank"].word == "refused"


def test_a_contradiction_names_every_field_and_its_place() -> None:
    answers = collector()
    answers.clash(("rank", "learning_rate"), "keep one")
    assert answers.problems == ["m.json:3: lora_r=16 and lr=null (m.json:4): keep one"]
