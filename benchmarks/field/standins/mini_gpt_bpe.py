"""Makes 700 iterations of 500; text and tokenizer are the repository's own."""

import sys
from pathlib import Path

script = Path(sys.argv[1], "mini_gpt_bpe.py")
text = script.read_text()
script.write_text(text.replace("max_iters     = 500 ", "max_iters     = 700 "))
