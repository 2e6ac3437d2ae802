"""Samples are tokenised, parsed or decoded again each time they are read.

Looks at: the call stacks while the loop waited for data, and those of the data set's own functions.
Says so when: at least 30 % of the wait for data is spent in a tokenizer, JSON, regular expressions,
    an image or an audio decoder, and that is 2 % of the wall time or more.
Stays silent when: the time goes elsewhere, or worker processes hide it.
Remedy: do it once before training and keep the result; only what is random must stay in the loop.
Numbers: bitwise the same, as long as the part that is moved draws no random numbers.
Seen: examples/slow/slow_getitem.
Source: hotloop, threshold from the five projects (one tokenised each sample at each step).
"""

from hotloop.rules.base import ABSTAIN, Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.data_wait import costs, feeding, keep_samples, lines

__all__ = ["RULE"]

OF_THE_WAIT = 0.30
DECODERS = {
    "tokenizing": ("tokeniz", "Tokeniz", "sentencepiece", "tiktoken"),
    "parsing JSON": ("/json/", "simplejson", "orjson"),
    "regular expressions": ("/re.py", "/re/", "/regex/"),
    "decoding images": ("/PIL/", "/cv2/", "torchvision/io", "imageio"),
    "decoding audio": ("librosa", "soundfile", "torchaudio"),
}


def judge(case: Case) -> Finding | None:
    """Add up the stacks that pass through a decoder."""
    waiting = [stack for stack in case.stacks if stack.row == "data wait"]
    for work, paths in DECODERS.items():
        hot = [stack for stack in waiting if stack.passes(*paths)]
        seconds = sum(stack.seconds for stack in hot)
        wait, share = case.row("data wait"), case.part(seconds)
        if not hot or seconds < OF_THE_WAIT * wait or share < ABSTAIN:
            continue
        return costs(
            case,
            f"{work} takes {seconds / wait:.0%} of the wait for data, at each read again",
            seconds,
            places=lines(hot),
            evidence={"in the loader": f"{seconds:.1f} s of {wait:.1f} s"},
            remedies=[
                *keep_samples(feeding(case)),
                code_edit("do it once before training and keep the result"),
            ],
        )
    return None


RULE = Rule(
    title="Tokenising or decoding at every read",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS),
    under="D1",
    weight=3,
    numerics="bitwise",
    experiment="ready samples",
    by_host=True,
)
