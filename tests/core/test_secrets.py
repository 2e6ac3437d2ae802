"""What of a command line is a secret, and what only looks like one."""

import pytest

from hotloop.core.secrets import MASK, Hider, redacted


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["t.py", "--api-key", "s3cr3tvalue"], ["t.py", "--api-key", MASK]),
        (["t.py", "--password=hunter2"], ["t.py", f"--password={MASK}"]),
        (["t.py", "db.password=hunter2"], ["t.py", f"db.password={MASK}"]),
        (["t.py", "+wandb.api_key=abc123"], ["t.py", f"+wandb.api_key={MASK}"]),
        (["t.py", "--hf_token", "x1y2"], ["t.py", "--hf_token", MASK]),
        (["t.py", "--hfToken", "x1y2"], ["t.py", "--hfToken", MASK]),
        (["t.py", "-token", "x1y2"], ["t.py", "-token", MASK]),
        (["t.py", "s3://me:pw12@host/a"], ["t.py", f"s3://me:{MASK}@host/a"]),
        (["t.py", "--db=postgres://u:p%40ss@h:5/x"], ["t.py", f"--db=postgres://u:{MASK}@h:5/x"]),
        (["t.py", "https://h/a?token=abc&b=1"], ["t.py", f"https://h/a?token={MASK}&b=1"]),
        (["t.py", '{"api_key": "abc", "lr": 1}'], ["t.py", f'{{"api_key": "{MASK}", "lr": 1}}']),
        (["t.py", "hf_" + "a" * 30], ["t.py", MASK]),
        (["t.py", "--note", "AKIA" + "A1" * 8], ["t.py", "--note", MASK]),
    ],
)
def test_secrets_are_masked(words, kept):
    assert list(redacted(words)) == kept


@pytest.mark.parametrize(
    "words",
    [
        ["t.py", "--max-token", "5", "--max_tokens=512", "--tokenizer", "gpt2"],
        ["t.py", "--pad-token", "<pad>", "--eos_token=</s>", "model.image_token=<image>"],
        ["t.py", "--key", "label", "--sort-key=length", "--keyboard", "qwerty"],
        ["t.py", "--use-auth-token", "--lr", "1e-3"],
        ["t.py", "https://host/a?tokens=5", "ssh://git@host/x", "C:/data"],
        ["t.py", "--secret-santa=false", "--token=1"],
    ],
)
def test_what_is_none_stays(words):
    assert list(redacted(words)) == words


def test_a_secret_is_taken_out_of_every_text_and_of_a_page():
    hide = Hider(["t.py", "--password", "a&b-4711", "--secret", "train"])
    assert hide.text("failed with a&amp;b-4711") == f"failed with {MASK}"
    found = hide.json({"a": ["login a&b-4711", 3], "train.py": {"raised": "a&b-4711"}})
    assert found == {"a": [f"login {MASK}", 3], "train.py": {"raised": MASK}}
    assert hide.text("train.py:7") == "train.py:7", "a word that also stands for itself"
