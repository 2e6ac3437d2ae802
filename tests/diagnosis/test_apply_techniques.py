"""Techniques in a script's process: what they promise about the numbers, and what they say."""

import copy
import gc
import pickle
from functools import cache

import pytest
import torch
from tests.golden.outside import Augmented, Images, Net, Result, put_into, script
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from hotloop import techniques
from hotloop.core.plan import Plan
from hotloop.diagnosis.apply_techniques import AppliedTechniques
from hotloop.observe.observer import ScriptObserver
from hotloop.observe.when_to_stop import StopLimits

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
BITWISE = (
    "loader-workers",
    "loader-workers:count=1:ahead=4",
    "sample-cache",
    "vectorised-reads",
    "activation-checkpointing",
    "activation-checkpointing:mode=selective",
    "gc-freeze",
)
ROUNDING = ("fused-adamw", "autocast-bf16", "autocast-fp16", "channels-last")


@cache
def plain() -> Result:
    return script()


@pytest.fixture(autouse=True)
def _as_it_was():
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    yield
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.benchmark = False
    gc.unfreeze()


def workers_of(result: Result) -> int:
    return result.loader.num_workers


@pytest.mark.parametrize("use", BITWISE)
def test_bitwise_techniques_leave_losses_evaluation_and_weights_bit_for_bit(use: str) -> None:
    result, effects = put_into(script, use)
    assert [effect.word for effect in effects.values()] == ["in effect"], effects
    assert result.equals(plain())


def test_all_that_is_bitwise_is_so_together() -> None:
    uses = ("loader-workers", "vectorised-reads", "activation-checkpointing", "gc-freeze")
    result, effects = put_into(script, *uses)
    assert {effect.word for effect in effects.values()} == {"in effect"}
    assert result.equals(plain())


def is_in(use: str, result: Result) -> bool:
    """Whether a technique is really in, by what it left behind.

    Convolutions of either layout round alike on some processors (an Intel with AVX-512 does).
    """
    if use != "channels-last":
        return result.losses != plain().losses
    convolutions = [m.weight for m in result.net.modules() if isinstance(m, torch.nn.Conv2d)]
    mine = all(w.is_contiguous(memory_format=torch.channels_last) for w in convolutions)
    return bool(convolutions) and mine


@pytest.mark.parametrize("use", ROUNDING)
def test_rounding_techniques_keep_their_tolerance(use: str) -> None:
    technique = techniques.get(use)
    result, effects = put_into(script, use)
    assert effects[use].word == "in effect", effects
    assert is_in(use, result)
    for mine, theirs in zip(result.losses[:6], plain().losses[:6], strict=True):
        assert mine == pytest.approx(theirs, rel=technique.tolerance)


def test_pytorchs_own_persistent_workers_are_another_run_from_the_second_epoch_on() -> None:
    """Why techniques/on_scripts/loader_workers.py does it; the first epoch is the same."""
    other = script(num_workers=1, persistent_workers=True)
    assert other.losses[:7] == plain().losses[:7]
    assert other.losses[7:] != plain().losses[7:]


def test_reading_that_draws_is_left_alone() -> None:
    result, effects = put_into(lambda: script(Augmented()), "loader-workers")
    assert effects["loader-workers"].word == "refused"
    assert "reading samples draws from torch" in effects["loader-workers"].how
    assert workers_of(result) == 0
    assert result.equals(script(Augmented()))


def test_a_cache_of_samples_that_change_is_refused() -> None:
    _, effects = put_into(lambda: script(Augmented(), epochs=1), "sample-cache")
    assert effects["sample-cache"].word == "refused"
    assert "draws from torch" in effects["sample-cache"].how


class InMemory(TensorDataset):
    """As it says."""


def in_memory() -> TensorDataset:
    images = Images()
    return InMemory(images.x, torch.arange(len(images)) % 4)


def test_data_in_memory_get_no_workers_and_no_cache_but_are_cut_at_once() -> None:
    for id in ("loader-workers", "sample-cache"):
        result, effects = put_into(lambda: script(in_memory(), epochs=1), id)
        assert effects[id].word == "refused"
        assert "views of tensors that lie in memory" in effects[id].how
    result, effects = put_into(lambda: script(in_memory()), "vectorised-reads")
    assert effects["vectorised-reads"].word == "in effect"
    assert result.equals(script(in_memory()))


class Quick(Dataset):
    """Makes each sample anew, in 3 us: as a fast processor reads one that takes work."""

    def __len__(self):
        return 48

    def __getitem__(self, index):
        return torch.full((3, 8, 8), index / 48), index % 4


@pytest.mark.parametrize("id", ["loader-workers", "sample-cache"])
def test_samples_that_are_made_in_no_time_are_read_ahead_and_kept_as_others_are(id) -> None:
    """How long a read takes decides nothing: on a faster processor it takes less."""
    result, effects = put_into(lambda: script(Quick()), id)
    assert effects[id].word == "in effect"
    assert result.equals(script(Quick()))


class Stream(IterableDataset):
    def __iter__(self):
        return ((torch.randn(3, 8, 8), number % 4) for number in range(16))


def stream() -> list[float]:
    torch.manual_seed(0)
    net, loader = Net(), DataLoader(Stream(), batch_size=8)
    return [net(x).sum().item() for x, _ in loader]


@pytest.mark.parametrize("id", ["loader-workers", "sample-cache", "vectorised-reads"])
def test_an_iterable_data_set_is_left_alone(id: str) -> None:
    losses, effects = put_into(stream, id)
    assert effects[id].word == "refused"
    assert losses == stream()


class Mutable(Images):
    """A data set whose script changes it between epochs."""

    scale = 1.0

    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image * self.scale, label


def curriculum() -> list[float]:
    torch.manual_seed(0)
    data, net, sums = Mutable(), Net(), []
    loader = DataLoader(data, batch_size=8, shuffle=True)
    for epoch in range(3):
        data.scale = 1.0 + epoch
        sums += [net(x).sum().item() for x, _ in loader]
    return sums


@pytest.mark.parametrize("id", ["loader-workers", "sample-cache"])
def test_what_the_script_changes_in_its_data_between_epochs_is_seen(id: str) -> None:
    sums, effects = put_into(curriculum, id)
    assert effects[id].word == "in effect"
    assert sums == curriculum()


def two_loops_over_one_loader() -> list[float]:
    torch.manual_seed(0)
    loader = DataLoader(Images(24), batch_size=8, shuffle=True)
    pairs = [(a.sum().item(), b.sum().item()) for a, _ in loader for b, _ in loader]
    zipped = [(a.sum().item(), b.sum().item()) for (a, _), (b, _) in zip(loader, loader)]  # noqa: B905
    first = next(iter(loader))[0].sum().item()  # left after one batch
    return [*sum(pairs, ()), *sum(zipped, ()), first, next(iter(loader))[0].sum().item()]


def test_loops_within_loops_see_the_batches_they_saw() -> None:
    sums, effects = put_into(two_loops_over_one_loader, "loader-workers")
    assert effects["loader-workers"].word == "in effect"
    assert sums == two_loops_over_one_loader()


def late_reader() -> list[float]:
    """An iterator that is made long before it is read, as many scripts with endless loops do."""
    torch.manual_seed(0)
    loader = DataLoader(Images(16), batch_size=8, shuffle=True)
    batches = iter(loader)
    noise, sums = torch.randn(()).item(), []
    for _ in range(5):
        try:
            x, _ = next(batches)
        except StopIteration:
            batches = iter(loader)
            noise += torch.randn(()).item()
            x, _ = next(batches)
        sums.append(x.sum().item() + noise)
    return sums


def test_an_iterator_draws_its_order_when_it_is_first_read() -> None:
    sums, effects = put_into(late_reader, "loader-workers")
    assert effects["loader-workers"].word == "in effect"
    assert sums == late_reader()


def test_a_loader_that_is_read_once_without_gradients_is_left_alone() -> None:
    loader = DataLoader(Images(16), batch_size=8)

    def evaluate() -> None:
        with torch.no_grad():
            for _ in loader:
                pass

    _, effects = put_into(evaluate, "loader-workers")
    assert loader.num_workers == 0
    assert effects["loader-workers"].how.startswith("no DataLoader was iterated with gradients")


def test_the_scripts_objects_stay_the_scripts() -> None:
    uses = ("loader-workers", "activation-checkpointing", "channels-last", "autocast-bf16")
    result, _ = put_into(script, *uses, "fused-adamw")
    assert type(result.loader) is DataLoader
    assert len(result.loader) == len(plain().loader)
    assert list(result.net.state_dict()) == list(plain().net.state_dict())
    copies = (copy.deepcopy(result.net), pickle.loads(pickle.dumps(result.net)))
    for other in copies:
        for name, value in other.state_dict().items():
            assert torch.equal(value, result.net.state_dict()[name])
    assert b"hotloop" not in pickle.dumps(result.net)
    assert b"hotloop" not in pickle.dumps(result.optimizer.state_dict())


def test_a_compiled_model_is_read_back_by_its_graphs_and_keeps_its_names() -> None:
    torch._dynamo.reset()  # of what other tests compiled
    torch._dynamo.utils.counters.clear()
    result, effects = put_into(lambda: script(epochs=1), "compile:backend=aot_eager")
    assert effects["compile"].word == "in effect"
    assert effects["compile"].how.startswith("2 blocks, 1 graphs")
    assert list(result.net.state_dict()) == list(plain().net.state_dict())
    assert result.losses == plain().losses[: len(result.losses)]


@pytest.mark.parametrize(
    ("optimizer", "how"),
    [
        (torch.optim.SGD, "fused=True"),
        (torch.optim.Adagrad, "fused=True"),
        (torch.optim.RMSprop, "foreach=True"),
    ],
)
def test_other_optimizers_take_what_torch_has_for_them(optimizer, how: str) -> None:
    result, effects = put_into(lambda: script(epochs=1, optimizer=optimizer), "fused-adamw")
    assert effects["fused-adamw"].how.startswith(how)
    expected = script(epochs=1, optimizer=optimizer).losses
    assert result.losses == pytest.approx(expected, rel=1e-5)


class OwnAdam(torch.optim.Adam):
    """Reads no flag of torch's."""

    def step(self, closure=None):
        for group in self.param_groups:
            for tensor in group["params"]:
                tensor.data -= group["lr"] * tensor.grad


def test_an_optimizer_with_a_step_of_its_own_is_refused() -> None:
    _, effects = put_into(lambda: script(epochs=1, optimizer=OwnAdam), "fused-adamw")
    assert effects["fused-adamw"].word == "refused"
    assert "makes its step by itself" in effects["fused-adamw"].how


def test_a_switch_that_the_script_sets_back_is_set_again_before_the_first_step() -> None:
    def careless() -> int:
        torch.set_num_threads(4)
        script(epochs=1)
        return torch.get_num_threads()

    threads, effects = put_into(careless, "threads:count=2")
    assert threads == 2
    assert effects["threads"].how == "2 compute threads"


def test_a_switch_that_the_script_sets_back_later_is_not_said_to_be_in_effect() -> None:
    def stubborn() -> None:
        script(epochs=1)
        torch.set_float32_matmul_precision("highest")

    torch.set_float32_matmul_precision("highest")
    _, effects = put_into(stubborn, "tf32")
    assert effects["tf32"].word == "refused"
    assert "the script itself asked for a switch" in effects["tf32"].how


def test_what_never_came_is_said() -> None:
    _, effects = put_into(lambda: None, "fused-adamw", "loader-workers", "channels-last")
    assert {effect.word for effect in effects.values()} == {"refused"}
    assert effects["fused-adamw"].how == "no optimizer was stepped"
    assert "no module with trainable parameters" in effects["channels-last"].how


def test_a_gate_is_asked_again_in_the_scripts_process() -> None:
    plan = Plan(micro_batch=1).plus("tf32")
    put_in, observer = (
        AppliedTechniques(plan, {"tf32": "plan p.json"}),
        ScriptObserver(StopLimits(full=True)),
    )
    put_in.join(observer)
    observer.start()
    observer.finish()
    (effect,) = put_in.effects()
    if not torch.cuda.is_available():
        assert (effect.word, effect.origin) == ("refused", "plan p.json")
        assert "TF32" in effect.how


def test_a_script_under_autocast_already_is_left_alone() -> None:
    class Under(Net):
        def forward(self, x):
            return super().forward(x)

    def itself() -> None:
        net, x = Under(), torch.randn(2, 3, 8, 8)
        with torch.autocast("cpu", torch.bfloat16):
            net(x).sum().backward()

    _, effects = put_into(itself, "autocast-bf16")
    assert effects["autocast-bf16"].how == "the script calls its model under autocast itself"


def test_outputs_come_back_in_float32_and_the_inside_is_bfloat16() -> None:
    seen = []

    class Watched(Net):
        def forward(self, x):
            output = super().forward(x)
            seen.append(output.dtype)
            return {"logits": output, "more": (output, [output], 3)}

    def once():
        output = Watched()(torch.randn(2, 3, 8, 8))
        return output["logits"].dtype, output["more"][0].dtype, output["more"][1][0].dtype

    dtypes, _ = put_into(once, "autocast-bf16")
    assert seen == [torch.bfloat16]
    assert set(dtypes) == {torch.float32}


def test_both_networks_of_a_script_are_changed() -> None:
    def two() -> None:
        one, other = torch.nn.Linear(4, 4), Net()
        x = torch.randn(2, 3, 8, 8)
        (one(other(x)).sum()).backward()

    _, effects = put_into(two, "autocast-bf16")
    assert "(and on 1 more)" in effects["autocast-bf16"].how


def test_the_model_is_not_kept_alive() -> None:
    import weakref

    def build() -> weakref.ref:
        return weakref.ref(script(epochs=1).net)

    (ref), _ = put_into(build, "autocast-bf16", "compile:backend=aot_eager")
    torch._dynamo.reset()
    gc.collect()
    assert ref() is None


class Padded(Dataset):
    """Rows of 40 columns with at most 10 tokens each; labels carry no loss in the padding."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index):
        length = 5 + index % 6
        ids = torch.zeros(40, dtype=torch.long)
        mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
        ids[:length], mask[:length], labels[:length] = 3, 1, 3
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def test_padding_is_cut_from_training_batches() -> None:
    def widths() -> list[tuple[int, ...]]:
        loader = DataLoader(Padded(), batch_size=4)
        return [tuple(value.shape[1] for value in batch.values()) for batch in loader]

    seen, effects = put_into(widths, "dynamic-padding")
    assert effects["dynamic-padding"].word == "in effect"
    assert set(seen) == {(8, 8, 8), (16, 16, 16)}
