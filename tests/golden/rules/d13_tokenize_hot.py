"""Golden cases of D13 tokenize_hot."""

from tests.golden.cases import SCRIPT, healthy, stack, wall

RE = ("/usr/lib/python3.11/re/__init__.py", 200, "findall")
POSITIVE = [
    healthy(
        wall=wall(data_wait=50.0),
        stacks=(
            stack("data wait", 40.0, RE, (SCRIPT, 12, "Texts.__getitem__")),
            stack("data wait", 10.0, (SCRIPT, 14, "Texts.__getitem__")),
        ),
    ),
    healthy(  # a tokenizer of the project's own
        wall=wall(data_wait=50.0),
        stacks=(
            stack(
                "data wait",
                45.0,
                (SCRIPT, 79, "BPETokenizer.encode"),
                (SCRIPT, 97, "Texts.__getitem__"),
            ),
        ),
    ),
]
NEGATIVE = [
    healthy(  # most of the wait is elsewhere
        wall=wall(data_wait=50.0),
        stacks=(
            stack("data wait", 5.0, RE, (SCRIPT, 12, "Texts.__getitem__")),
            stack("data wait", 45.0, (SCRIPT, 14, "Texts.__getitem__")),
        ),
    ),
    healthy(  # not worth a word: 1 % of the time
        wall=wall(data_wait=0.1),
        stacks=(stack("data wait", 0.1, RE, (SCRIPT, 12, "Texts.__getitem__")),),
    ),
]
