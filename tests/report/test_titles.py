import pytest
from tests.report.conftest import usual

from hotloop.report import titles
from hotloop.report.facts import read_facts

WORDS = {
    titles.lowest: "3.1000 nats at step 40",
    titles.time_of_lowest: "5.50 s for 3.1000",
    titles.norm: "median 1, highest 1 at step 1",
    titles.learning_rate: "highest 0.001, last 0.001",
    titles.speed: "median 1.2k tokens/s",
    titles.memory: "1 GiB to 1 GiB",
    titles.busy: "median 50%",
}


@pytest.mark.parametrize(("words", "said"), WORDS.items())
def test_what_is_seen_is_said(made, words, said):
    assert words(read_facts(made("run", usual(40)))) == said


@pytest.mark.parametrize("words", WORDS)
def test_nothing_to_see_is_unknown(made, words):
    assert words(read_facts(made("zero", []))).startswith("unknown")


def test_the_course_of_a_run_is_a_sentence(made):
    assert titles.course(read_facts(made("zero", []))) == "no step was made."
    said = titles.course(read_facts(made("run", usual(40))))
    assert said.endswith("lowest validation loss 3.1000 nats at step 40.")
