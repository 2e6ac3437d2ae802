import pytest
import torch
from tests.golden.jobs import session_of
from tests.golden.outside import put_into, script

from hotloop import techniques


def hugging(attention: str):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=11,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        attn_implementation=attention,
    )
    return transformers.BertForSequenceClassification(config)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("before", "use", "after", "how"),
    [
        ("eager", "sdpa", "sdpa", "in 2 calls"),
        ("sdpa", "sdpa:backend=naive", "eager", "written-out"),
        ("sdpa", "sdpa:backend=math", "sdpa", "math in 2 calls"),
    ],
)
def test_a_model_of_transformers_is_switched_by_its_own_setter(before, use, after, how) -> None:
    def train() -> str:
        model = hugging(before)
        ids = torch.arange(8).reshape(2, 4)
        loss = model(ids, labels=torch.tensor([0, 1])).loss
        loss.backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        return model.config._attn_implementation

    found, effects = put_into(train, use)
    assert effects["sdpa"].word == "in effect", effects
    assert how in effects["sdpa"].how
    assert found == after


def test_attention_of_a_models_own_is_said_to_be_left_alone() -> None:
    _, effects = put_into(lambda: script(epochs=1), "sdpa:backend=math")
    assert effects["sdpa"].word == "refused"
    assert "attention is its own" in effects["sdpa"].how
    _, effects = put_into(lambda: script(epochs=1), "sdpa")
    assert effects["sdpa"].word == "not needed here"


@pytest.mark.parametrize("backend", ["auto", "flash", "efficient", "cudnn", "math", "naive"])
def test_attention_is_read_back_by_the_kernel_that_ran(backend: str) -> None:
    session = session_of()
    technique = techniques.get("sdpa")
    assert technique.apply(session, backend=backend) == 2
    ran = "flash" if backend in ("efficient", "cudnn") else backend  # those two are not on a CPU
    kernel = "written-out" if ran in ("math", "naive") else "scaled_dot_product_flash_attention"
    assert (technique.read_back(session) or "").startswith(f"{ran}: {kernel}")
    session.undo["sdpa"]()
    assert {block.attention.attention for block in session.model.blocks} == {"auto"}


def test_a_model_without_attention_has_no_back_end_to_switch() -> None:
    session = session_of()
    session.model = torch.nn.Linear(2, 2)
    assert techniques.get("sdpa").apply(session, backend="naive") == 0
    assert techniques.get("sdpa").read_back(session) is None
