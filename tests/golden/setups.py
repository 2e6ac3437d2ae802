"""How texts are turned into tokens where a test asks for no more."""

from tests.golden.tiny_tokenizer import save

from hotloop.data.shapes import layout
from hotloop.data.tokenizer import find_tokenizer
from hotloop.data.turn import Setup


def of_texts(folder) -> Setup:
    """Rows {"text": ...} by the tiny tokenizer, which is written to the folder; bad rows go."""
    save(folder)
    return Setup(
        vocabulary=find_tokenizer(str(folder)),
        layout=layout([{"text": "a"}]),
        template=None,
        backend="tokenizers",
        policy="skip",
    )
