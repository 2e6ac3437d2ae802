"""Golden cases of C6 bool_option."""

from tests.golden.cases import SCRIPT, healthy

PARSER = """import argparse

parser = argparse.ArgumentParser()
parser.add_argument("-g", "--gpu", type=bool, default=True)
parser.add_argument("--seed", type=int)
options = parser.parse_args()
"""
IN_FUNCTION = f"def main():\n    {PARSER.replace(chr(10), chr(10) + '    ')}"


def typed(*arguments: str, text: str = PARSER):
    return healthy(sources={SCRIPT: text}, arguments=arguments)


POSITIVE = [
    typed("--seed", "1", "--gpu", "False"),
    typed("--gpu=0"),
    typed("-g", "no"),
]
NEGATIVE = [
    healthy(),
    typed("--gpu", "True"),
    typed("--gpu", "False", "--gpu", "True"),  # the last one counts
    typed("--seed", "0"),
    typed("--gpu", "False", text=PARSER.replace("type=bool", "type=as_bool")),
    typed("--gpu", "False", text=PARSER.replace("argparse", "jsonargparse")),
    typed(
        "--gpu",
        "False",
        text=PARSER.replace("parser.add", "parser.register('type', bool, f)\nparser.add", 1),
    ),
    typed("--gpu", "False", text=f"def bool(text):\n    return text == 'True'\n\n\n{PARSER}"),
    typed("--name", "gpu", "no", text=PARSER.replace('"-g", "--gpu"', '"gpu"')),
]
TWO_PARSERS = f"{PARSER}other.add_argument('--gpu', type=as_bool)\n"
KNOWN = [
    (typed("--gpu", "False"), "proved"),
    (typed("--gpu", "no", text=IN_FUNCTION), "read"),
    (typed("--gpu", "no", text=TWO_PARSERS), "read"),
]
