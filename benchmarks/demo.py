"""What `make demo` claims, checked: the validation loss against the split's unigram entropy."""

import sys
from pathlib import Path

from hotloop.core.env import ENV
from hotloop.data.tokens import open_tokens, unigram_entropy
from hotloop.library import load_run

GAIN = 0.8  # nats per character that the demo must end below the unigram entropy


def main(path: Path) -> int:
    """Print the comparison; return 1 when the model knows too little."""
    run = load_run(path)
    tokens = open_tokens(ENV.cache / "tokens" / run.record["data"]["fingerprint"])
    entropy = unigram_entropy(tokens.train, tokens.valid, len(tokens.vocabulary))
    last = run.evaluations[-1]["loss"]
    print(
        f"validation loss {last:.4f} nats per character; unigram entropy of the same split "
        f"{entropy.cross:.4f}; {entropy.cross - last:.4f} below it",
        file=sys.stderr,
    )
    return 0 if entropy.cross - last >= GAIN else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
