from hotloop.recipes.sft.manifest_answers import Answer, AnswerCollector, ManifestField


def collector(*given: str) -> AnswerCollector:
    lora = ManifestField(key="lora_r", place="m.json:3", raw=16, value=16)
    rate = ManifestField(key="lr", place="m.json:4", raw=1, value=1.0)
    return AnswerCollector({"rank": lora, "learning_rate": rate}, given)


def test_an_answer_says_where_what_and_why() -> None:
    field = ManifestField(key="targets", place="m.json:2", raw=["a", "b"], value="a,b")
    answer = Answer(
        item=field, word="in effect", why="layers", settings={"x.y": "a,b", "x.z": None}
    )
    assert answer.text == "m.json:2: targets=['a', 'b']: in effect as x.y=a,b, x.z=null: layers"
    idle = Answer(item=field, word="not needed here", why="no layers", settings={})
    assert idle.text == "m.json:2: targets=['a', 'b']: not needed here: no layers"


def test_an_answer_is_one_printable_line_whatever_the_key() -> None:
    field = ManifestField(key="\x1b[31m", place="m.json:1", raw="\n", value="\n")
    assert Answer(item=field, word="refused", why="no", settings={}).text.isprintable()


def test_a_secret_is_never_shown() -> None:
    field = ManifestField(key="hub_token", place="m.json:1", raw="hf_abc", value=None)
    assert "hf_abc" not in Answer(item=field, word="refused", why="no").text


def test_a_field_that_is_absent_gets_no_answer_of_a_rule() -> None:
    answers = collector()
    answers.effect("alpha", "on", {"a.b": 1})
    answers.idle("alpha", "off")
    assert answers.value("alpha") is None
    assert answers.answers == {}


def test_the_first_answer_of_a_field_stands() -> None:
    answers = collector()
    answers.effect("rank", "on", {"adapter.rank": 16})
    answers.idle("rank", "off")
    found = answers.answers["rank"]
    assert (found.word, found.settings) == ("in effect", {"adapter.rank": 16})


def test_the_command_line_decides_a_setting_that_it_names() -> None:
    answers = collector("adapter.rank")
    answers.effect("rank", "on", {"adapter.rank": 16})
    found = answers.answers["rank"]
    assert (found.word, found.settings) == ("not needed here", {})
    assert found.why == "adapter.rank=… on the command line decides"


def test_a_contradiction_names_every_field_and_its_place() -> None:
    answers = collector()
    answers.refuse(("rank", "learning_rate"), "keep one")
    assert answers.answers["rank"].problem == ("m.json:3: lora_r=16 and lr=1 (m.json:4): keep one")
