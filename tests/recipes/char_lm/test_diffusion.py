import pytest
import torch

from hotloop.api import load_run
from hotloop.core.progress import Note, ReadyToTrain
from hotloop.engine.init_from import load_weights
from hotloop.jobs import train
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request
from hotloop.models.sedd import Sedd
from hotloop.recipes.char_lm.config import CharLmConfig, Diffusion
from hotloop.recipes.char_lm.diffusion import noise_of
from hotloop.session.job import Job

both = pytest.mark.parametrize("transition", ["absorbing", "uniform"])


def settings(tiny: list[str], transition: str, *changed: str) -> list[str]:
    keys = {text.partition("=")[0] for text in changed}
    kept = [text for text in tiny if text.partition("=")[0] not in keys]
    return [*kept, "objective=diffusion", f"diffusion.transition={transition}", *changed]


def job_of(asked: list[str]) -> Job:
    return assemble(fresh_request("char-lm", asked), train.silent, lambda: None).job


@both
def test_a_run_says_what_it_learns_and_its_bound_falls(tiny, tmp_path, transition):
    heard, larger = [], ("model.width=48", "training.batch_size=32", "training.max_steps=60")
    asked = settings(tiny, transition, "diffusion.sigma_min=0.01", *larger)
    train.train(fresh_request("char-lm", asked), out=tmp_path / "run", notify=heard.append)
    facts = next(message for message in heard if isinstance(message, ReadyToTrain)).facts
    for piece in ("score entropy", f"{transition} noise", "sigma 0.01 to 20 geometric"):
        assert piece in facts["objective"]
    assert "upper bound on -log p" in facts["loss"]
    trained, job = load_run(tmp_path / "run"), job_of(asked)
    assert trained.record["facts"]["objective"] == facts["objective"]
    assert isinstance(trained.model(), Sedd)
    untrained = job.loss(job.model(), job.valid.batch(0, 0, len(job.valid)).tensors).item()
    assert trained.evaluations[-1]["loss"] < untrained - 0.05


def test_the_size_of_micro_batches_changes_no_sample(tiny, tmp_path):
    """The global batch and its noise are the same; sums are rounded in another order."""
    losses = []
    for accumulation in (1, 3):
        changed = ("model.dropout=0", f"training.accumulation={accumulation}")
        out, asked = tmp_path / str(accumulation), settings(tiny, "absorbing", *changed)
        train.train(fresh_request("char-lm", asked), out=out)
        losses.append([step.loss for step in load_run(out).steps])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_weights_go_on_whole_in_its_kind_and_as_far_as_they_fit_in_the_other(tiny, tmp_path):
    for name, asked in (("next", tiny), ("noise", settings(tiny, "absorbing"))):
        asked = [*(s for s in asked if "max_steps" not in s), "training.max_steps=5"]
        train.train(fresh_request("char-lm", asked), out=tmp_path / name)
    model = job_of(settings(tiny, "absorbing")).model()
    assert load_weights(model, tmp_path / "noise") == []
    trained = load_run(tmp_path / "noise").model("last").state_dict()
    assert all(torch.equal(trained[name], found) for name, found in model.state_dict().items())
    said = "\n".join(load_weights(model, tmp_path / "next"))
    assert "embed.weight: file has [28, 16], model has [29, 16]" in said, "the mask is one more"
    assert "head.weight: not in the file" in said
    assert "blocks.0.attention" not in said


def test_the_noise_is_the_configured_one():
    asked = Diffusion(transition="uniform", sigma_min=1e-3, sigma_max=9.0)
    noise = noise_of(CharLmConfig(objective="diffusion", diffusion=asked), 66)
    found = (noise.transition, noise.vocabulary, noise.sigma_min, noise.sigma_max)
    assert found == ("uniform", 66, 1e-3, 9.0)


@both
def test_the_job_is_put_together_from_the_configuration(tiny, transition):
    job = job_of(settings(tiny, transition))
    batch = job.train.batch(0, 0, 4)
    assert batch.tensors["inputs"].shape == (4, 16)
    assert job.loss(job.model(), batch.tensors).shape == torch.Size([])
    assert job.train.fingerprint != job.valid.fingerprint
    assert transition in job.train.fingerprint


def test_settings_of_a_file_that_have_no_effect_are_told(tiny, tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("diffusion: {transition: uniform}")
    heard = []
    assemble(fresh_request("char-lm", tiny, config_file=path), heard.append, lambda: None)
    said = [message.text for message in heard if isinstance(message, Note)]
    assert f"diffusion.transition=uniform ({path}:1) has no effect with objective=next-char" in said
