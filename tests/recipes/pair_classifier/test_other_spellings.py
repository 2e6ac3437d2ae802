"""Configurations of classifier projects with Hydra: their keys, and what is not one file."""

from pathlib import Path

import pytest

from hotloop.config.schema import settings_of
from hotloop.core.errors import ConfigError
from hotloop.recipes.pair_classifier.config import (
    PAIR_ALIASES,
    PairClassifierConfig,
    resolve_pair_classifier,
)

RESOLVED = """
experiment: full_5fold
seed: 42
model:
  model_name: org/encoder
  pooling_strategy: cls
  classifier_dropout: 0.1
training:
  num_epochs: 4
  lr: 2e-5
  warmup_ratio: 0.1
  early_stopping_patience: 2
  early_stopping_min_delta: 0.001
  max_grad_norm: 1.0
cv:
  num_folds: 3
data:
  path: rows.csv
  text_column: Message
  label_column: Category
  max_seq_length: 64
"""


def test_every_spelling_leads_to_a_setting() -> None:
    assert set(PAIR_ALIASES.values()) <= set(settings_of(PairClassifierConfig))
    assert not set(PAIR_ALIASES) & set(settings_of(PairClassifierConfig))


def test_a_resolved_configuration_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "resolved.yaml"
    path.write_text(RESOLVED)
    config = resolve_pair_classifier(["training.batch_size=8", "cv.n_splits=4"], path).config
    assert (config.experiment, config.seed, config.cv.folds) == ("full_5fold", 42, 4)
    assert (config.model.pooling, config.model.head_dropout) == ("cls", 0.1)
    training = config.training
    assert (training.epochs, training.learning_rate, training.warmup_share) == (4, 2e-5, 0.1)
    assert (training.patience, training.min_delta, training.batch_size) == (2, 0.001, 8)
    assert (config.data.text_a, config.data.label, config.data.max_length) == (
        "Message",
        "Category",
        64,
    )


def test_groups_of_hydra_are_answered_with_the_command_that_makes_one_file(tmp_path: Path) -> None:
    command = r"python SCRIPT --cfg job --resolve > FILE\.yaml"
    with pytest.raises(ConfigError, match=f"cannot be read: it is a folder; .*{command}"):
        resolve_pair_classifier([], tmp_path)
    path = tmp_path / "config.yaml"
    for groups in ("[model, _self_]", "[{model: bert}, _self_]"):
        path.write_text(f"defaults: {groups}\nseed: 1\n")
        with pytest.raises(ConfigError, match=f"config.yaml:1: .*{command}"):
            resolve_pair_classifier([], path)
