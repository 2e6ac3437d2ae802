from hotloop.recipes.sft.manifest_answers import Answer, Desk, Given


def desk() -> Desk:
    lora = Given(key="lora_r", place="m.json:3", raw=16, value=16)
    null = Given(key="lr", place="m.json:4", raw=None, value=None)
    return Desk({"rank": lora, "learning_rate": null})


def test_an_answer_says_where_what_and_why() -> None:
    given = Given(key="targets", place="m.json:2", raw=["a", "b"], value="a,b")
    answer = Answer(
        given=given, word="in effect", why="layers", settings={"x.y": "a,b", "x.z": None}
    )
    assert answer.text == "m.json:2: targets=['a', 'b']: in effect as x.y=a,b, x.z=null: layers"
    told = Answer(given=given, word="not needed here", why="no layers", settings={})
    assert told.text == "m.json:2: targets=['a', 'b']: not needed here: no layers"


def test_an_answer_is_one_printable_line_whatever_the_key() -> None:
    given = Given(key="\x1b[31m", place="m.json:1", raw="\n", value="\n")
    assert Answer(given=given, word="refused", why="no", settings={}).text.isprintable()


def test_a_field_that_is_absent_or_null_gets_no_answer_of_a_rule() -> None:
    at = desk()
    for name in ("alpha", "learning_rate"):
        at.effect(name, "on", {"a.b": 1})
        at.idle(name, "off")
        at.refuse(name, "no")
        assert at.value(name) is None
    assert at.answers == {}
    at.unset("learning_rate", "null")
    assert at.answers["learning_rate"].word == "not needed here"


def test_each_word_is_kept_with_its_reason() -> None:
    at = desk()
    at.effect("rank", "on", {"adapter.rank": 16})
    assert (at.answers["rank"].word, at.answers["rank"].settings) == (
        "in effect",
        {"adapter.rank": 16},
    )
    at.idle("rank", "off")
    assert (at.answers["rank"].word, at.answers["rank"].why) == ("not needed here", "off")
    at.refuse("rank", "no")
    assert at.answers["rank"].word == "refused"


def test_a_contradiction_names_every_field_and_its_place() -> None:
    at = desk()
    at.clash(("rank", "learning_rate"), "keep one")
    assert at.problems == ["m.json:3: lora_r=16 and lr=null (m.json:4): keep one"]
