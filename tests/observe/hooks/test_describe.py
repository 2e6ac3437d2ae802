import importlib

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from hotloop.core.finding import SourceLocation
from hotloop.observe.hooks import describe

ASK = "get_worker" + "_info"  # this file must not hold the word: Stream does not ask


class Squares(Dataset):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(float(index**2))


class Stream(IterableDataset):
    def __iter__(self):
        yield torch.zeros(1)


class Shifted(Subset):
    def __getitem__(self, index):
        return super().__getitem__(index) + 1

    def __getitems__(self, indices):
        return [self[index] for index in indices]


def facts(*args, **kwargs):
    return describe.loader(DataLoader(*args, **kwargs), key=3, place=None)


def test_tensors_of_every_layout_have_bytes():
    dense = torch.eye(4)
    sparse, nested = dense.to_sparse(), [torch.ones(2), torch.ones(3)]
    jagged = torch.nested.nested_tensor(nested, layout=torch.jagged)
    assert describe.nbytes({"graph": [sparse, dense]}) == 4 * 2 * 8 + 4 * 4 + 16 * 4
    assert describe.own_nbytes(jagged) == 5 * 4
    assert describe.own_nbytes("text") is None


def line_of(function) -> int:
    return function.__code__.co_firstlineno


def test_a_loader_is_told_by_its_settings():
    seen = facts(Squares(), batch_size=4, shuffle=True, drop_last=True)
    assert (seen.key, seen.dataset, seen.length, seen.batches) == (3, "Squares", 10, 2)
    assert (seen.batch_size, seen.shuffle, seen.drop_last, seen.workers) == (4, True, True, 0)
    assert (seen.sampler, seen.collate) == ("RandomSampler", "default_collate")
    assert seen.getitem == SourceLocation(file=__file__, line=line_of(Squares.__getitem__))
    assert seen.collate_place is None, "torch's own"
    assert not seen.vectorised


def test_a_collate_function_of_the_project_has_a_place():
    def stack(samples):
        return torch.stack(samples)

    seen = facts(Squares(), collate_fn=stack)
    assert (seen.collate, seen.collate_place) == (
        "stack",
        SourceLocation(file=__file__, line=line_of(stack)),
    )


def test_a_subset_is_looked_through():
    data = TensorDataset(torch.zeros(8, 4))
    seen = facts(Subset(Subset(data, range(6)), range(5)), batch_size=2)
    assert (seen.dataset, seen.length, seen.batches) == ("TensorDataset", 5, 3)
    assert seen.in_memory is True
    assert seen.dataset_bytes == 8 * 4 * 4
    own = facts(Subset(Squares(), [1, 2]))
    assert own.getitem == SourceLocation(file=__file__, line=line_of(Squares.__getitem__))
    assert not own.vectorised, "Subset has __getitems__, the data set has none"
    assert facts(Shifted(Squares(), [1, 2])).dataset == "Shifted", "it does more than pass on"


def test_an_iterable_data_set_has_no_length():
    seen = facts(Stream(), batch_size=2)
    assert (seen.iterable, seen.length, seen.batches, seen.worker_info) == (True, None, None, False)
    assert seen.getitem == SourceLocation(file=__file__, line=line_of(Stream.__iter__))


def test_a_stream_that_is_divided_somewhere_is_told(tmp_path, monkeypatch):
    """In the class, its base, a function beside it, a stream that it reads, or worker_init_fn."""
    (tmp_path / "shards.py").write_text(
        f"from torch.utils.data import IterableDataset, {ASK}\n"
        f"def mine(): return {ASK}().id\n"
        "class Shards(IterableDataset):\n"
        "    def __iter__(self): yield mine()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    shards = importlib.import_module("shards").Shards

    class Later(shards):
        pass

    class Around(IterableDataset):
        def __init__(self, inner):
            self.inner = inner

        def __iter__(self):
            yield from self.inner

    for divided in (shards(), Later(), Around(Around(shards()))):
        assert facts(divided).worker_info is True
    assert facts(Around(Stream())).worker_info is False
    assert facts(Stream(), num_workers=1, worker_init_fn=print).worker_info is None


def test_bytes_are_counted_however_they_are_nested():
    tensor = torch.zeros(3)
    assert describe.nbytes({"a": tensor, "b": [tensor, (tensor, "text")], "c": 1}) == 36


def test_a_model_is_told_by_its_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1).half())
    model[0].requires_grad_(False)
    seen = describe.model(model)
    assert (seen.name, seen.parameters, seen.trainable) == ("Sequential", 25, 5)
    assert seen.bytes == 20 * 4 + 5 * 2
    assert seen.dtypes == {"float32": 20, "float16": 5}
    assert (seen.compiled, seen.place, seen.device) == (False, None, "cpu")
    assert describe.model(torch.compile(model, backend="eager")).compiled


def test_an_optimizer_is_told_by_its_groups():
    model = torch.nn.Linear(4, 2)
    model.bias.requires_grad_(False)
    made = torch.optim.AdamW(model.parameters(), fused=True, weight_decay=0.1)
    seen = describe.optimizer(made, key=0, place=None)
    (group,) = seen.groups
    assert (seen.name, group.parameters, group.frozen, group.tensors) == ("AdamW", 10, 2, 2)
    assert (group.fused, group.weight_decay, group.dtypes) == (True, 0.1, ("float32",))
    assert group.without_gradient == 0, "no backward pass yet: nothing is known"


def test_parameters_without_a_gradient_are_counted_once_others_have_one():
    used, unused = torch.nn.Linear(2, 1), torch.nn.Linear(3, 1)
    made = torch.optim.SGD([*used.parameters(), *unused.parameters()], lr=0.1)
    used(torch.ones(1, 2)).sum().backward()
    assert describe.optimizer(made, key=0, place=None).groups[0].without_gradient == 4


def test_a_schedulers_length_is_found_where_it_is_said():
    made = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    rates = torch.optim.lr_scheduler
    cosine = describe.scheduler(rates.CosineAnnealingLR(made, T_max=50), place=None)
    assert (cosine.name, cosine.total, cosine.steps) == ("CosineAnnealingLR", 50, 0)

    def warm(num_training_steps: int):
        return rates.LambdaLR(made, lambda step: step / num_training_steps)

    linear = warm(70)
    made.step()
    linear.step()
    assert describe.scheduler(linear, place=None).total == 70
    assert describe.scheduler(linear, place=None).steps == 1
    assert describe.scheduler(rates.StepLR(made, 5), place=None).total is None


def test_a_scaler_is_told_by_whether_it_scales():
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    assert not describe.scaler(scaler, place=None).enabled


def test_code_is_own_only_where_the_project_wrote_it():
    assert describe.own_code(torch.nn.Linear) is None
    assert describe.own_code(int) is None
    assert describe.own_code(Squares).file == __file__
