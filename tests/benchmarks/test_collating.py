import json

import numpy as np
import pytest
import torch

from benchmarks import collating
from hotloop.data.sampling.token_rows import Form, TokenRows


def test_it_runs_and_says_what_was_not_run(tmp_path, capsys):
    collating.main(["--quick", "--out", str(tmp_path)])
    result = json.loads((tmp_path / "collating.json").read_text())
    hot = [collating.PACKED, collating.FREE, collating.PADDED]
    assert list(result["rows"]) == [collating.FLOOR, *hot]
    assert list(result["absent"]) == list(collating.PEERS)
    readings = [row[collating.PER_TOKEN]["readings"] for row in result["rows"].values()]
    assert all(len(each) == 2 and min(each) > 0 for each in readings)
    assert [goal["n"] for goal in result["goals"]] == [2, 2, 0]
    assert result["title"] in capsys.readouterr().out


def test_every_way_makes_batches_of_the_same_rows(tmp_path):
    pytest.importorskip("transformers", reason="the dev extra has it")
    lengths = collating.drawn(40)
    plain = collating.written(tmp_path / "plain", lengths, is_packed=False)
    feeds = {
        name: TokenRows(
            plain, "train", form=Form(pad=0, layout=layout), seed=1, shuffle=True
        ).batch(0, 0, 40)
        for name, layout in (("padded", "padded"), ("flat", "flat"))
    }
    theirs, tokens = next(collating.seq2seq(lengths))
    assert tokens == lengths.sum()
    mine = feeds["padded"].tensors
    for name in ("input_ids", "attention_mask"):
        assert torch.equal(theirs[name], mine[name].to(theirs[name].dtype)), name
    assert torch.equal(theirs["labels"], mine["labels"]), "first tokens carry no loss here"
    flattened, tokens = next(collating.flattening(lengths))
    assert tokens == lengths.sum()
    mine = feeds["flat"].tensors
    for name in ("input_ids", "labels", "position_ids"):
        assert torch.equal(flattened[name], mine[name]), name
    assert torch.equal(flattened["cu_seq_lens_q"].flatten(), mine["cu_seqlens"])


def test_packed_rows_hold_the_tokens_of_all_rows(tmp_path):
    lengths = collating.drawn(200)
    packed = collating.written(tmp_path / "packed", lengths, is_packed=True)
    batches = collating.hotloop(packed, 1)
    rows = [next(batches) for _ in range(packed.splits["train"].rows)]
    assert sum(tokens for _, tokens in rows) == lengths.sum()
    ids, _ = collating.chat(lengths)
    seen = np.concatenate([batch.tensors["input_ids"].numpy().ravel() for batch, _ in rows])
    assert sorted(seen[seen > 0]) == sorted(ids)
