from dataclasses import replace

from tests.golden.cases import healthy
from tests.golden.slow_run import CASE, MODELS

from hotloop.report.built import built, settings


def test_what_was_built_stands_with_its_settings_and_place():
    made = built(CASE)
    for said in ("batch size 32, 0 workers, collate collate, RandomSampler", "5,120 samples",
                 "1.42M, 1.42M trainable", "sdpa flash", "1 group, 22 tensors, fused False",
                 "4.02e-05 at first", "40,000 calls", "train.py:10"):  # fmt: skip
        assert said in made


def test_what_is_dead_or_unused_is_counted():
    model = replace(MODELS[0], dead_parameters=4000, unused_parameters=2_000_000)
    made = built(replace(CASE, models=(model,)))
    assert "4k never got a gradient; 2M never called" in made


def test_nothing_built_and_nothing_asked_say_so():
    nothing = healthy(loaders=(), models=(), optimizers=())
    assert "Nothing was seen being built." in built(nothing)
    assert "Nothing was asked for" in settings(nothing)
    assert "0.001, all the time" in built(healthy())


def test_techniques_stand_with_how_they_were_read_back():
    made = settings(CASE)
    assert "fused=True in 1 group" in made
    assert "batch_size" in made
