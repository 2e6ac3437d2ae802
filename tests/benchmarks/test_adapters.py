import json

import pytest
import torch

from benchmarks import adapters


def test_it_runs_and_says_what_was_not_run(tmp_path, capsys):
    adapters.main(["--quick", "--out", str(tmp_path)])
    result = json.loads((tmp_path / "adapters.json").read_text())
    assert list(result["rows"]) == [adapters.LORA, adapters.DORA]
    assert list(result["absent"]) == [adapters.PEFT_LORA, adapters.PEFT_DORA]
    readings = [row[adapters.STEP]["readings"] for row in result["rows"].values()]
    assert all(len(each) == 2 and min(each) > 0 for each in readings)
    assert [goal["n"] for goal in result["goals"]] == [2, 0, 0]
    assert result["title"] in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_rows_train_the_same(kind):
    ours, theirs = adapters.ours(kind), adapters.peft(kind)
    trained = [
        sorted(p.shape for p in model.parameters() if p.requires_grad) for model in (ours, theirs)
    ]
    assert trained[0] == trained[1]
    ids = torch.arange(40).view(2, 20)
    with torch.no_grad():
        mine, expected = (model(input_ids=ids, labels=ids).loss for model in (ours, theirs))
    assert torch.allclose(mine, expected, rtol=1e-6)
