import copy
import json
import pickle
from types import SimpleNamespace

import pytest
import yaml
from tests.observing import observed

from hotloop.host import Limits
from hotloop.probe.tracked import Noted

TEXT = {"model": {"width": 8, "depth": 2}, "lr": 0.1, "unread": 1}


def noted() -> tuple[Noted, set[str]]:
    seen: set[str] = set()
    return Noted(TEXT, (), seen), seen


def wants_all(**settings):
    return SimpleNamespace(**settings)


@pytest.mark.parametrize(
    ("read", "keys"),
    [
        (lambda c: c["lr"], {"lr"}),
        (lambda c: c["model"]["width"], {"model", "model.width"}),
        (lambda c: c.get("lr"), {"lr"}),
        (lambda c: c.get("seed", 0), {"seed"}),
        (lambda c: "lr" in c, {"lr"}),
        (lambda c: c.setdefault("lr", 1), {"lr"}),
        (lambda c: c.pop("lr"), {"lr"}),
        (lambda c: wants_all(**c["model"]), {"model", "model.width", "model.depth"}),
        (lambda c: len(c), set()),
    ],
)
def test_what_is_read_is_noted(read, keys):
    config, seen = noted()
    read(config)
    assert seen == keys


@pytest.mark.parametrize(
    "read",
    [
        lambda c: wants_all(**c),
        lambda c: {**c},
        lambda c: dict(c),
        lambda c: c | {"lr": 1},
        lambda c: {"lr": 1} | c,
        lambda c: c.copy(),
        lambda c: list(c.items()),
        lambda c: list(c.values()),
        lambda c: sorted(c),
        lambda c: json.dumps(c),
    ],
)
def test_whoever_takes_all_of_it_has_read_all_of_it(read):
    config, seen = noted()
    read(config)
    assert seen == {"model", "model.width", "model.depth", "lr", "unread"}


def test_it_is_a_dict_in_every_other_way():
    config, _ = noted()
    assert config == TEXT
    assert isinstance(config, dict)
    assert repr(config) == repr(TEXT)
    assert json.dumps(config) == json.dumps(TEXT)
    for copied in (copy.deepcopy(config), pickle.loads(pickle.dumps(config)), config.copy()):
        assert type(copied) is dict
        assert copied == TEXT
    config["new"] = 1
    assert config["new"] == 1


def test_the_files_a_script_loads_are_kept_with_the_keys_it_read(tmp_path):
    path, data = tmp_path / "c.yaml", tmp_path / "data.json"
    path.write_text(yaml.safe_dump(TEXT))
    data.write_text(json.dumps({str(key): key for key in range(3_000)}))
    dumped = []

    def train() -> None:
        with path.open() as file:
            config = yaml.safe_load(file)
        dumped.append(yaml.safe_dump(config))
        config["model"]["width"]

    def read_data() -> None:
        with data.open() as file:
            assert type(json.load(file)) is dict

    case = observed(train, limits=Limits(steps=9))
    (config,) = case.configs
    assert (config.path, config.text) == (str(path), path.read_text())
    assert config.read == ("model", "model.width")
    assert config.place.file == __file__
    assert dumped == [path.read_text()]
    data_alone = observed(read_data, limits=Limits(steps=9))
    assert [found.read for found in data_alone.configs] == [None], "not tracked: it is data"


def test_a_run_to_its_end_gets_the_dict_that_yaml_made(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("lr: 0.1")

    def train() -> None:
        assert type(yaml.safe_load(path.read_text())) is dict

    assert [config.read for config in observed(train).configs] == [None]
