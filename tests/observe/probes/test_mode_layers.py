"""In which mode a model is trained and evaluated, and which layers feel it."""

import pytest

SCRIPT = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    train = DataLoader(TensorDataset(torch.randn(40, 8)), batch_size=4)
    valid = DataLoader(TensorDataset(torch.randn(40, 8)), batch_size=4)
    model = nn.Sequential({layer}, nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    {before}
    for epoch in range(3):
        {at_epoch}
        for (x,) in train:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        {to_evaluate}
        with torch.no_grad():
            for (x,) in {reads}:
                model(x)
"""
DROPOUT = "nn.Dropout(0.5)"


def modes(observed, layer=DROPOUT, before="", at_epoch="", to_evaluate="", reads="valid"):
    parts = {"before": before, "at_epoch": at_epoch, "to_evaluate": to_evaluate}
    (model,) = observed(SCRIPT.format(layer=layer, reads=reads, **parts)).models
    return model.modes


def test_a_model_that_is_set_back_is_trained_in_training_mode(observed):
    found = modes(observed, at_epoch="model.train()", to_evaluate="model.eval()")
    assert (found.updates, found.in_eval, found.eval_since) == (30, 0, None)
    assert (found.scored, found.unset) == (30, 0)


def test_a_model_that_is_left_in_evaluation_mode_is_told_with_its_line(observed):
    found = modes(observed, to_evaluate="model.eval()")
    assert (found.updates, found.in_eval, found.turns) == (30, 20, 1)
    assert found.eval_since == 11
    assert found.off == {"Dropout": 1}
    assert found.eval_place.line == 17


def test_a_mode_that_was_set_before_the_training_has_its_line(observed):
    found = modes(observed, before="model.train(False)")
    assert (found.in_eval, found.eval_since, found.eval_place.line) == (30, 1, 10)


def test_an_evaluation_in_training_mode_is_counted(observed):
    found = modes(observed)
    assert (found.in_eval, found.scored, found.unset) == (0, 30, 30)


def test_passes_on_the_rows_of_the_training_are_no_evaluation(observed):
    assert modes(observed, reads="train").scored == 0


@pytest.mark.parametrize(
    ("layer", "names"),
    [
        (DROPOUT, {"Dropout": 1}),
        ("nn.BatchNorm1d(8)", {"BatchNorm1d": 1}),
        ("nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1)", {"MultiheadAttention": 1}),
        ("nn.Dropout(0.0)", {}),
        ("nn.LayerNorm(8)", {}),
        ("nn.BatchNorm1d(8, track_running_stats=False)", {}),
    ],
)
def test_the_layers_that_feel_the_mode_are_counted(observed, layer, names):
    found = modes(observed, layer=layer).layers
    assert {kind: found.get(kind) for kind in names} == names
    assert bool(found) == bool(names)


def test_layers_beside_weights_that_nobody_trains_are_left_out(observed):
    frozen = "nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).requires_grad_(False)"
    optimizer = "optimizer = torch.optim.SGD(model[1].parameters(), lr=0.001)"
    assert modes(observed, layer=frozen, before=optimizer).layers == {}


def test_a_part_that_a_library_returned_in_evaluation_mode_is_told(observed, tmp_path, monkeypatch):
    library = tmp_path / "site-packages" / "zoo.py"
    library.parent.mkdir()
    library.write_text(
        "from torch import nn\n"
        "def pretrained():\n"
        "    return nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1)).eval()\n"
    )
    monkeypatch.syspath_prepend(str(library.parent))
    found = modes(observed, layer="__import__('zoo').pretrained()")
    assert (found.part, found.part_off) == ("0", {"Dropout": 1})
    assert found.part_place.line == 8
    assert (
        modes(observed, layer="__import__('zoo').pretrained()", before="model.train()").part == ""
    )
    own = "nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1)).eval()"
    assert modes(observed, layer=own).part == ""
