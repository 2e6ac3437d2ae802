"""A byte-level BPE tokenizer trained on a page of text: real, small, and the same everywhere."""

import json

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

TEXT = ["the quick brown fox jumps over a lazy dog", "a wizard's job is to vex chumps quickly"] * 20
SPECIALS = ["<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>"]


def tokenizer(*, size=400, bos=False) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(TEXT, trainer)
    if bos:
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A",
            pair="<s> $A </s> $B:1 </s>:1",
            special_tokens=[("<s>", 0), ("</s>", 1)],
        )
    return made


def save(folder, *, eos="</s>", template=None, **options):
    """Write a folder as a model has it; return the tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    made = tokenizer(**options)
    made.save(str(folder / "tokenizer.json"))
    config = {"eos_token": eos, "bos_token": {"content": "<s>"}, "chat_template": template}
    (folder / "tokenizer_config.json").write_text(
        json.dumps({key: value for key, value in config.items() if value is not None})
    )
    return made
