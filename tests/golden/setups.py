"""How texts are turned into tokens where a test asks for no more."""

from tests.golden.tiny_tokenizer import save

from hotloop.data.tokenising.find_layout import layout
from hotloop.data.tokenising.tokenize_portion import Setup
from hotloop.data.tokenising.tokenizer_files import find_tokenizer


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
