import json

import torch
from tests.observing import observed
from torch import nn


def test_of_files_that_hold_data_no_text_is_kept(tmp_path):
    settings, rows = tmp_path / "settings.json", [tmp_path / f"{n}.json" for n in range(5)]
    settings.write_text('{"rate": 0.1}')
    for row in rows:
        row.write_text("[1.0, 2.0]")

    def train():
        with settings.open() as file:
            rate = json.load(file)["rate"]
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        for path in rows:
            with path.open() as file:
                model(torch.tensor(json.load(file))).sum().backward()
            optimizer.step()

    texts = {config.path: config.text for config in observed(train).configs}
    assert texts == {str(settings): '{"rate": 0.1}', **{str(path): "" for path in rows}}
