"""Shared by the tests of several ranks."""

import pytest
from tests.preloaded import Preloaded


@pytest.fixture(scope="session")
def preloaded_models():
    """What forks ranks that have the models of transformers already, too."""
    models = ("bert", "qwen3")
    with Preloaded(
        "torch.distributed.fsdp",
        *(f"transformers.models.{name}.modeling_{name}" for name in models),
    ) as process:
        yield process
