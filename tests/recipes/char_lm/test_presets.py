import pytest

from hotloop.recipes.char_lm.presets import EXPERIMENTS, PRESETS

ALL = {**PRESETS, **EXPERIMENTS}


def test_the_names_are_those_of_the_issue() -> None:
    named = ["t4", "12gb", "16gb", "24gb", "rtx3090", "rtx4080s", "rtx4090", "h100", "cpu"]
    assert list(PRESETS) == named
    assert list(EXPERIMENTS) == ["nanogpt-cpu"]


@pytest.mark.parametrize("name", ALL)
def test_every_value_has_a_reason_and_every_reason_a_value(name: str) -> None:
    assert set(ALL[name].values) == set(ALL[name].reasons)
    assert all(len(reason) > 10 for reason in ALL[name].reasons.values())


@pytest.mark.parametrize("name", ALL)
def test_a_preset_does_not_choose_another(name: str) -> None:
    assert not {"preset", "experiment"} & set(ALL[name].values)


def test_gpus_of_one_memory_have_one_batch() -> None:
    batch = {name: preset.values["training.batch_size"] for name, preset in PRESETS.items()}
    assert (batch["12gb"], batch["16gb"], batch["24gb"]) == (96, 128, 192)
    assert batch["t4"] == batch["rtx4080s"] == batch["16gb"]
    assert batch["rtx3090"] == batch["rtx4090"] == batch["24gb"]


def test_a_gpu_without_bf16_gets_fp16() -> None:
    assert PRESETS["t4"].values["training.precision"] == "fp16"
    assert PRESETS["12gb"].values["training.precision"] == "auto"
    assert PRESETS["h100"].values["training.precision"] == "bf16"


def test_what_was_not_measured_is_not_called_measured() -> None:
    assert {preset.source for preset in PRESETS.values()} == {"rule"}
    assert EXPERIMENTS["nanogpt-cpu"].source == "published"
