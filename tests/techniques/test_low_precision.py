"""fp8 and int8 training: torchao's layers stand where they pay, and nowhere else."""

import copy
from dataclasses import replace

import pytest
import torch
from tests.golden import fake_torchao
from tests.golden.machines import MACHINES
from torch import nn

from hotloop import techniques
from hotloop.core.plan import Plan
from hotloop.models.adapters.attach import attach
from hotloop.models.adapters.config import AdapterConfig
from hotloop.techniques import fp8

LOW = ("fp8", "int8-mixed-precision")


class Subject:
    """What such a technique needs of a session."""

    def __init__(self, model):
        self.model, self.facts = model, {}


@pytest.fixture(autouse=True)
def torchao(monkeypatch):
    fake_torchao.install(monkeypatch)


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr(fp8, "WIDE", 32)
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 64), nn.Linear(64, 10))


@pytest.mark.parametrize("id", LOW)
def test_wide_layers_are_replaced_and_no_others(model, id):
    subject, technique = Subject(copy.deepcopy(model)), techniques.get(id)
    assert technique.read_back(subject) is None
    assert technique.apply(subject) == 2
    assert technique.read_back(subject).startswith("2 linear layers")
    assert [type(each) is nn.Linear for each in subject.model] == [False, False, False, True]


@pytest.mark.parametrize("id", LOW)
def test_frozen_layers_and_adapters_are_left_alone(model, id):
    attach(model, AdapterConfig(rank=2))
    subject = Subject(model)
    assert techniques.get(id).apply(subject) == 0
    assert techniques.get(id).read_back(subject) is None


@pytest.mark.parametrize("id", LOW)
def test_without_compile_and_without_torchao_it_is_refused(id, monkeypatch):
    technique, gpu = techniques.get(id), MACHINES["h100"]
    plain = Plan(micro_batch=1).plus(id)
    compiled = plain.plus("compile")
    assert "take compile as well" in technique.blocked(gpu, plain)
    assert technique.blocked(gpu, compiled) is None
    assert "8.6" in fp8.TECHNIQUE.blocked(replace(gpu, capability=(8, 6)), compiled)
    monkeypatch.setattr(fp8.importlib.util, "find_spec", lambda name: None)
    assert "pip install 'hotloop[torchao]'" in technique.blocked(gpu, compiled)
