"""Techniques as arguments of the library that trains, in code and on the command line."""

import re
from pathlib import Path

import pytest
from tests.paths import ROOT

from hotloop import techniques
from hotloop.core.plan import Plan
from hotloop.diagnosis.diff import Suggested, suggest
from hotloop.diagnosis.library_arguments import LIBRARIES, OPTIONS, TABLE
from hotloop.jobs.request import parse_use

SCRIPTS = ROOT / "tests" / "suggested"
PARSES = (
    "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
    "parser = HfArgumentParser(TrainingArguments)\n"
    "[args] = parser.parse_args_into_dataclasses()\n"
    "Trainer(args=args).train()\n"
)
BUILDS = "from transformers import TrainingArguments as T\nargs = T('out'{more})\n"


def suggested(script: Path, uses: str, *args: str, edit_defaults: bool = False) -> Suggested:
    plan = Plan(micro_batch=1)
    for use in map(parse_use, uses.split()):
        plan = plan.plus(use.id, **dict(use.choice))
    return suggest(script, plan, args, edit_defaults=edit_defaults)


def of(text: str, folder: Path, uses: str, *args: str, **more: bool) -> Suggested:
    path = folder / "train.py"
    path.write_text(text)
    return suggested(path, uses, *args, **more)


def added(found: Suggested) -> list[str]:
    return [line.strip() for line in re.findall(r"^[+](?![+])(.*)", found.diff, re.MULTILINE)]


def test_the_table_names_techniques_and_libraries_that_there_are() -> None:
    ids = {technique.id for technique in techniques.ALL}
    assert set(TABLE) | set(OPTIONS) <= ids
    assert {library for entry in TABLE.values() for library in entry} == set(LIBRARIES)


@pytest.mark.parametrize(
    ("uses", "words"),
    [
        ("autocast-bf16", "--bf16"),
        ("autocast-fp16", "--fp16"),
        ("compile", "--torch_compile"),
        ("fused-adamw", "--optim adamw_torch_fused"),
        ("activation-checkpointing", "--gradient_checkpointing"),
        ("activation-checkpointing:mode=off", "--gradient_checkpointing False"),
        ("length-bucketing", "--train_sampling_strategy group_by_length"),
        ("loader-workers", "--dataloader_num_workers 2 --dataloader_persistent_workers"),
        ("loader-workers:count=0", "--dataloader_num_workers 0"),
        ("sdpa", "--attn_implementation sdpa"),
        (
            "micro-batch:factor=1/2",
            "--per_device_train_batch_size 4 --gradient_accumulation_steps 2",
        ),
        ("tf32", "--tf32"),
    ],
)
def test_options_of_a_parser_of_dataclasses_are_typed(uses: str, words: str) -> None:
    found = suggested(SCRIPTS / "hf_clm.py", uses, "--output_dir", "out")
    assert found.diff == ""
    assert found.args == ("--output_dir", "out", *words.split())


@pytest.mark.parametrize(
    ("more", "factor", "words"),
    [
        (
            ", per_device_train_batch_size=2, gradient_accumulation_steps=8",
            "x4",
            "args = T('out', per_device_train_batch_size=8, gradient_accumulation_steps=2)",
        ),
        (
            ", gradient_accumulation_steps=8",
            "x2",
            "args = T('out', gradient_accumulation_steps=4, per_device_train_batch_size=16)",
        ),
        ("", "x2", "gradient_accumulation_steps=1 cannot be divided by 2"),
        (
            ", per_device_train_batch_size=3, gradient_accumulation_steps=8",
            "1/2",
            "per_device_train_batch_size=3 cannot be divided by 2",
        ),
        (
            ", gradient_accumulation_steps=64 // size()",
            "x2",
            "it trains with gradient_accumulation_steps=a value that is computed",
        ),
    ],
)
def test_a_micro_batch_and_the_accumulation_change_together(
    more: str, factor: str, words: str, tmp_path: Path
) -> None:
    found = of(BUILDS.format(more=more), tmp_path, f"micro-batch:factor={factor}")
    if words.startswith("args"):
        assert "".join(added(found)).replace(",)", ")") == words
    else:
        assert found.diff == ""
        assert found.notes == (f"micro-batch: {words}",)


def test_an_option_that_is_typed_is_changed_where_it_stands(tmp_path: Path) -> None:
    words = "--bf16 False --optim=adamw_torch --dataloader-num-workers 8 --seed 1 -- rest"
    uses = "autocast-bf16 fused-adamw loader-workers"
    assert " ".join(of(PARSES, tmp_path, uses, *words.split()).args) == (
        "--bf16 --optim adamw_torch_fused --dataloader_num_workers 2 --seed 1 "
        "--dataloader_persistent_workers -- rest"
    )


def test_what_excludes_the_other_precision_takes_it_back(tmp_path: Path) -> None:
    found = of(PARSES, tmp_path, "autocast-bf16", "--fp16")
    assert sorted(found.args) == ["--bf16", "--fp16", "False"]
    found = of(BUILDS.format(more=", fp16=True"), tmp_path, "autocast-bf16")
    assert added(found) == ["args = T('out', fp16=False, bf16=True)"]


def test_an_optimizer_without_a_fused_form_is_left_alone(tmp_path: Path) -> None:
    found = of(PARSES, tmp_path, "fused-adamw", "--optim", "adafactor")
    assert not found.changes(["--optim", "adafactor"])
    assert found.notes == ("fused-adamw: it trains with optim='adafactor'",)
    found = of(BUILDS.format(more=", optim='sgd'"), tmp_path, "fused-adamw")
    assert found.notes == ("fused-adamw: it trains with optim='sgd'",)


def test_what_is_asked_for_already_is_not_changed(tmp_path: Path) -> None:
    found = of(PARSES, tmp_path, "autocast-bf16", "--bf16")
    assert found.args == ("--bf16",)
    assert found.notes == ("autocast-bf16: the command line asks for it already",)
    found = of(BUILDS.format(more=", bf16=True"), tmp_path, "autocast-bf16")
    assert found.notes == ("autocast-bf16: the script asks for it already",)


def test_a_file_of_settings_is_named_rather_than_options(tmp_path: Path) -> None:
    found = of(PARSES, tmp_path, "autocast-bf16", "config.json")
    assert not found.changes(["config.json"])
    assert found.notes == (
        "autocast-bf16: set bf16 to True: the options are read from config.json, which takes it "
        "as a key",
    )


def test_defaults_are_edited_where_that_is_asked_for() -> None:
    uses = "autocast-bf16 sdpa"
    found = suggested(SCRIPTS / "hf_clm.py", uses, "--bf16", "False", edit_defaults=True)
    assert added(found) == [
        'attn_implementation: str = field(default="sdpa")',
        "parser.set_defaults(bf16=True)",
    ]
    assert found.args == ("--bf16",), "a default has no effect where the option is typed"
    found = suggested(SCRIPTS / "gpt_argparse.py", "compile fused-adamw", edit_defaults=True)
    assert added(found) == [
        'parser.add_argument("--compile", action="store_true", default=True)',
        'parser.add_argument("--fused", action=argparse.BooleanOptionalAction, default=True)',
    ]


def test_defaults_are_edited_where_the_script_reads_no_command_line(tmp_path: Path) -> None:
    text = PARSES.replace("dataclasses()", "dataclasses(args=[])")
    found = of(text, tmp_path, "autocast-bf16")
    assert added(found) == ["parser.set_defaults(bf16=True)"]
    assert found.args == ()


def test_arguments_in_code_are_added_and_changed_there() -> None:
    uses = "autocast-bf16 compile fused-adamw loader-workers:count=1 activation-checkpointing"
    found = suggested(SCRIPTS / "hf_inline.py", uses)
    assert added(found) == [
        'optim="adamw_torch_fused",',
        "bf16=True,",
        "dataloader_num_workers=1,",
        "dataloader_persistent_workers=True,",
        "gradient_checkpointing=True,",
        "torch_compile=True,",
    ]
    assert found.args == ()


def test_an_argument_whose_value_is_an_option_is_set_there(tmp_path: Path) -> None:
    text = (
        "import argparse\nfrom transformers import TrainingArguments\n"
        "p = argparse.ArgumentParser()\np.add_argument('--workers', type=int, default=0)\n"
        "def main():\n    args = p.parse_args()\n"
        "    return TrainingArguments('out', dataloader_num_workers=args.workers)\nmain()\n"
    )
    found = of(text, tmp_path, "loader-workers:count=1")
    assert found.args == ("--workers", "1")
    assert "dataloader_persistent_workers=True" in found.diff
    assert "dataloader_num_workers=1" not in found.diff


def test_a_trainer_with_an_optimizer_of_the_script_has_it_fused_in_code(tmp_path: Path) -> None:
    text = PARSES.replace("args=args", "args=args, optimizers=(o, None)")
    text = f"import torch\no = torch.optim.AdamW([])\n{text}"
    found = of(text, tmp_path, "fused-adamw")
    assert added(found) == ["o = torch.optim.AdamW([], fused=True)"]
    assert found.args == ()


def test_lightning_takes_precision_and_compiled_modules() -> None:
    uses = "autocast-bf16 compile fused-adamw loader-workers:count=1 cudnn-benchmark"
    found = suggested(SCRIPTS / "lightning_fit.py", uses)
    assert found.args == ("--num-workers", "1")
    assert added(found) == [
        "rows, batch_size=self.batch_size, shuffle=True, num_workers=self.num_workers, "
        "persistent_workers=self.num_workers > 0",
        "return torch.optim.AdamW(self.parameters(), lr=self.lr, fused=True)",
        "benchmark=True,",
        'precision="bf16-mixed",',
        "trainer.fit(torch.compile(model), datamodule=data)",
    ]


def test_accelerate_takes_precision_from_its_option_and_compiles_in_its_call() -> None:
    found = suggested(SCRIPTS / "accelerate_nlp.py", "autocast-bf16 compile")
    assert found.args == ("--mixed_precision", "bf16")
    assert added(found) == [
        "accelerator = Accelerator(cpu=args.cpu, mixed_precision=args.mixed_precision, "
        'dynamo_backend="inductor")'
    ]


def test_a_value_that_an_option_does_not_take_is_refused(tmp_path: Path) -> None:
    text = (SCRIPTS / "accelerate_nlp.py").read_text().replace('"no", "fp16", "bf16"', '"no"')
    found = of(text, tmp_path, "autocast-bf16")
    assert found.notes == (
        "autocast-bf16: set mixed_precision to 'bf16': --mixed_precision takes no, fp8, and not "
        "bf16",
    )


def test_options_of_the_script_that_are_named_after_a_technique_are_typed() -> None:
    uses = "autocast-bf16 compile fused-adamw loader-workers:count=1"
    found = suggested(SCRIPTS / "gpt_argparse.py", uses)
    assert found.args == ("--dtype", "bfloat16", "--compile", "--fused", "--num_workers", "1")
    assert found.diff.count("\n+") == 2, "the name of the file, and persistent workers"


def test_a_technique_without_an_argument_is_an_edit_or_is_named() -> None:
    found = suggested(SCRIPTS / "hf_clm.py", "gc-freeze dynamic-padding")
    assert added(found) == ["import gc", "gc.collect()", "gc.freeze()"]
    assert [note.partition(":")[0] for note in found.notes] == ["dynamic-padding"]
