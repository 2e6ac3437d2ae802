"""Which line stands for a row of the ledger."""

from textwrap import dedent

import pytest

from hotloop.core.case.steps_and_loaders import Frame, Loader
from hotloop.core.finding import SourceLocation
from hotloop.observe.ledger.places import Places

FILE = "/project/train.py"


def line(*own: tuple[int, str], what: str = "mm", library: str = "") -> tuple[str, tuple]:
    """Return a line of a row: own frames, innermost first, below a library's."""
    frames = [Frame(file=library, line=1, function=what, own=False)] if library else []
    frames += [Frame(file=FILE, line=number, function=name, own=True) for number, name in own]
    return what, tuple(frames)


def chosen(name, lines, *, text="", loaders=(), evaluated=None, batches=()):
    places = Places(
        sources={FILE: dedent(text)},
        loaders=loaders,
        evaluated=evaluated or {},
        batches=set(batches),
    )
    place = places.choose(
        name, lines, [row for row in lines if row not in ("evaluating", "saving")]
    )
    return None if place is None else place.line


MAIN = (50, "main")


def test_waiting_is_for_the_innermost_function_even_if_an_evaluation_reads_it_too():
    lines = {
        "waiting for data": {line((7, "get"), (20, "read"), MAIN): 8.0},
        "evaluating": {line((7, "get"), (20, "read"), (30, "evaluate"), MAIN): 5.0},
        "useful": {line((40, "forward"), MAIN): 3.0},
    }
    assert chosen("waiting for data", lines) == 7


def test_an_evaluation_is_for_its_own_loop_and_not_for_the_model_that_is_also_trained():
    lines = {
        "evaluating": {line((40, "forward"), (30, "evaluate"), (51, "main")): 5.0},
        "useful": {line((40, "forward"), MAIN): 8.0},
    }
    assert chosen("evaluating", lines) == 30


def test_dead_work_is_for_the_call_below_which_all_is_dead_or_else_for_the_innermost_line():
    below = {line((7, "look"), (41, "main")): 5.0}
    other = {line((40, "forward"), (42, "main")): 5.0}
    assert chosen("dead", {"dead": below, "useful": other}) == 41
    mixed = {line((7, "trunk"), (42, "main")): 5.0}
    useful = {line((7, "trunk"), (42, "main")): 2.5, line((42, "main")): 0.2}
    assert chosen("dead", {"dead": mixed, "useful": useful}) == 7


TRAINER = """
    args = TrainingArguments(
        eval_strategy="steps",
        eval_steps=5,
        save_steps=1,
    )
    trainer = Trainer(args=args, compute_metrics=metrics)
    trainer.train()
    """
MODULE = "/lib/torch/nn/modules/module.py"


@pytest.mark.parametrize(
    ("row", "library", "number"),
    [
        ("evaluating", MODULE, 4),
        ("evaluating", "/lib/transformers/trainer.py", 7),
        ("saving", "", 5),
    ],
)
def test_what_a_library_does_in_its_own_loop_is_for_the_setting_that_tells_it(row, library, number):
    train = (8, "<module>")
    lines = {row: {line(train, library=library): 5.0}, "useful": {line(train): 5.0}}
    assert chosen(row, lines, text=TRAINER) == number


def test_an_evaluation_in_very_small_batches_is_for_the_loader_that_makes_them():
    train = Loader(key=0, batch_size=64)
    lines = {"evaluating": {line((30, "evaluate"), MAIN): 5.0}}

    def evaluated(size):
        built = SourceLocation(file=FILE, line=3)
        loader = Loader(key=1, role="evaluate", batch_size=size, place=built)
        return chosen("evaluating", lines, loaders=[train, loader], evaluated={1: 5.0})

    assert evaluated(1) == 3
    assert evaluated(32) == 30


WORKERS = """
    class Data:
        def __getitem__(self, index):
            \"\"\"Return a row.\"\"\"
            total = 0
            for number in range(index):
                total += number
            return total
    """


@pytest.mark.parametrize(("getitem", "number"), [(3, 6), (None, 9)])
def test_waiting_for_workers_is_for_what_they_run_or_for_the_loader_if_it_only_copies(
    getitem, number
):
    wait = line((20, "main"), what="select")
    frame = Frame(
        file="/lib/d.py", line=1, function="_MultiProcessingDataLoaderIter._get", own=False
    )
    lines = {"waiting for data": {(wait[0], (frame, *wait[1])): 5.0}}
    loader = Loader(
        key=0,
        workers=2,
        waits=(1.0,),
        place=SourceLocation(file=FILE, line=9),
        getitem=getitem and SourceLocation(file=FILE, line=getitem),
    )
    assert chosen("waiting for data", lines, text=WORKERS, loaders=[loader]) == number


@pytest.mark.parametrize(
    "pads",
    [
        "rows = tokenizer(texts, padding='max_length')",
        "rows = [ids + [0] * (limit - len(ids)) for ids in texts]",
        "rows = torch.full((len(texts), limit), 0); rows[0, 0] = 1",
        "rows = pad_sequence(texts, batch_first=True)",
    ],
)
def test_padding_is_for_the_line_that_pads_in_a_function_that_makes_batches(pads):
    text = f"""
    def other(texts):
        {pads}

    def collate(texts):
        # the batch
        {pads}
    """
    lines = {"padding": {line((40, "forward"), MAIN): 5.0}}
    assert chosen("padding", lines, text=text) in (3, 7)
    assert chosen("padding", lines, text=text, batches=[(FILE, "collate")]) == 7


TWO_SETS = """
class Pretraining:
    def __getitem__(self, index):
        return self.tokenizer(self.texts[index], padding="max_length")

class Chats:
    def padded(self, ids):
        return ids + [0] * (self.limit - len(ids))

    def __getitem__(self, index):
        return self.padded(self.ids[index])
"""


@pytest.mark.parametrize(("getitem", "number"), [(3, 4), (10, 8), (99, 4)])
def test_of_two_data_sets_that_of_the_training_pads(getitem, number):
    lines = {"padding": {line((40, "forward"), MAIN): 5.0}}
    read = SourceLocation(file=FILE, line=getitem)
    loader = Loader(key=1, role="train", place=read, getitem=read, workers=2)
    assert chosen("padding", lines, text=TWO_SETS, loaders=[loader]) == number


def test_padding_whose_line_is_not_found_is_for_the_code_that_computes_it():
    text = """
    scale = [0] * 4

    def forward(x):
        state = torch.zeros(len(x), 4)
        return cell(x, state)
    """
    lines = {
        "padding": {line((40, "forward"), MAIN): 5.0},
        "useful": {line((40, "forward"), MAIN): 0.1, line(MAIN): 1.0},
    }
    assert chosen("padding", lines, text=text) == 40
