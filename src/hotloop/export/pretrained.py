"""Writes a trained model in the format of transformers or PEFT, and verifies it by loading it."""

from __future__ import annotations

import copy
import json
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import torch

from hotloop.core.errors import CheckpointError, DeviceError, UsageError, did_you_mean
from hotloop.core.storage.files import remove_folder, write_folder
from hotloop.engine.checkpoint.tensor_file import tensor_chunks
from hotloop.models.adapters.attach import adapted, merged_state
from hotloop.models.adapters.nf4_linear import is_quantised
from hotloop.models.adapters.peft_files import CONFIG, TENSORS, adapter_state
from hotloop.models.causal_lm import CausalLm
from hotloop.models.classifier import Classifier
from hotloop.models.task_router import TaskRouter
from hotloop.models.weights.discovery import find_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch import Tensor, nn

    from hotloop.models.backbone import Backbone
    from hotloop.models.weights.discovery import FoundModel

__all__ = ["FORMS", "HEAD", "Exported", "Form", "export"]

Form = Literal["hf", "merged", "peft"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)
ROUTER: Final = "router.safetensors"  # router and heads of a task router
HEAD: Final = "classifier.safetensors"  # head and pooling of a classifier; see classifier.json
_WEIGHTS: Final = "model.safetensors"
_TOKENIZER_FILES: Final = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "generation_config.json",
)
_SHAPE: Final = (2, 24)  # rows and positions of the tokens that both models compute
# Tolerances as shares of the largest output: for the order of float32 sums, and for bf16 products
# of 4-bit weights, which the other side packs again or not at all.
_EXACT, _COARSE = 1e-4, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """An exported folder, and the result of its verification."""

    folder: Path
    form: Form
    reader: str  # the package that loaded it: "transformers 5.23.0"
    apart: float  # largest difference of an output, as a share of the largest output
    notes: tuple[str, ...] = ()  # sentences for users of the folder


def export(
    model: nn.Module, name: str, out: Path, form: str, *, kept: Mapping[str, Any] | None = None
) -> Exported:
    """Write a trained model into the folder `out`, load it again, and compare outputs.

    `name` is the folder or hub id of the pretrained model; `kept` goes into classifier.json, or
    into tasks.json for a task router. The form `hf` is a wholly trained model, `merged` a model
    with its adapters merged into the weights, and `peft` the adapters alone. Raises UsageError
    where the run does not have that form or `out` exists, CheckpointError where the loaded model
    computes different outputs (`out` is then removed), and DeviceError where PEFT is missing.
    """
    if isinstance(model, TaskRouter):
        return _export_tasks(model, name, out, form, kept=kept or {})
    backbone: Backbone | None = getattr(model, "backbone", None)
    if backbone is None:
        raise UsageError(
            "this run's model is hotloop's own, and no other program has it: its weights are in "
            "checkpoints/*/model.safetensors, and hotloop.load_run(RUN_DIR).model() builds it"
        )
    form = _form(backbone, form)
    reader = _reader(form)
    if out.exists():
        raise UsageError(f"{out} exists: name a folder that does not")
    base_model = find_model(name)
    files = _adapter_files(model, name) if form == "peft" else _model_files(backbone, form)
    if isinstance(model, Classifier):
        files |= _head_files(model, kept or {})
    files |= {
        n: [p.read_bytes()] for n in _TOKENIZER_FILES if (p := base_model.folder / n).is_file()
    }
    write_folder(out, files)
    try:
        apart = _output_difference(model, base_model, out, form)
        limit = _COARSE if _has_packed(backbone) else _EXACT
        if not apart <= limit:
            raise CheckpointError(
                f"what {reader} loads computes something else: outputs differ by {apart:.2g}"
                f" of the largest, not {limit:g}; nothing was kept. Please report this"
                f" architecture ({base_model.architecture})"
            )
    except BaseException:
        remove_folder(out)
        raise
    return Exported(folder=out, form=form, reader=reader, apart=apart, notes=_notes(model, form))


def _export_tasks(
    model: TaskRouter, name: str, out: Path, form: str, *, kept: Mapping[str, Any]
) -> Exported:
    """Write each task's adapter into its own folder, with the heads and the router beside them."""
    if form != "peft":
        raise UsageError("adapters that are routed are kept apart: --to peft writes one of each")
    reader = _reader("peft")
    if out.exists():
        raise UsageError(f"{out} exists: name a folder that does not")
    heads_and_router = {
        key: value
        for part in ("heads", "router")
        for key, value in model.state_dict().items()
        if key.startswith(f"{part}.")
    }
    write_folder(out, {"tasks.json": [_text(dict(kept))], ROUTER: tensor_chunks(heads_and_router)})
    base_model, apart = find_model(name), 0.0
    kind = "CAUSAL_LM" if model.heads is None else "FEATURE_EXTRACTION"
    try:
        for number, task in enumerate(model.shares.tasks):
            state = adapter_state(
                model.backbone.model, base=name, task=kind, of=methodcaller("of_task", number)
            )
            files = {CONFIG: [_text(state.config)], TENSORS: tensor_chunks(state.tensors)}
            write_folder(out / task, files)
            single_task = _SingleTaskModel(model, number)
            apart = max(apart, _output_difference(single_task, base_model, out / task, "peft"))
            if not apart <= _EXACT:
                raise CheckpointError(
                    f"what {reader} computes with the adapter of {task} differs by {apart:.2g} of "
                    f"the largest output, not {_EXACT:g}; nothing was kept. Please report it"
                )
    except BaseException:
        remove_folder(out)
        raise
    notes = (
        f"a folder for each task: {', '.join(model.shares.tasks)}",
        f"router and heads are in {ROUTER} and tasks.json: hotloop predict RUN_DIR uses them",
    )
    return Exported(folder=out, form="peft", reader=reader, apart=apart, notes=notes)


class _SingleTaskModel(CausalLm):
    """A task router with the adapter of one task only."""

    def __init__(self, router: TaskRouter, task: int) -> None:
        torch.nn.Module.__init__(self)
        self.backbone, self.softcap = router.backbone, getattr(router.trunk, "softcap", None)
        self._router, self._task = [router], task  # in a list, so as not to become a submodule

    def logits(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the logits of a decoder, or the last hidden states of an encoder."""
        shares = self._router[0].shares
        one_hot = torch.zeros(len(batch["input_ids"]), len(shares.tasks))
        one_hot[:, self._task] = 1
        shares.give(one_hot, batch)
        return self.backbone(batch) if self.backbone.head is None else super().logits(batch)


def _form(backbone: Backbone, requested: str) -> Form:
    """Return the requested form. Raises UsageError where the model does not have it."""
    form = next((known for known in FORMS if known == requested), None)
    if form is None:
        near = did_you_mean(requested, FORMS)
        raise UsageError(f"--to is one of {', '.join(FORMS)}, not {requested!r}{near}")
    has_adapters = bool(adapted(backbone.model))
    if has_adapters and form == "hf":
        raise UsageError(
            "this run trained adapters: --to merged writes a model that has them in its weights, "
            "--to peft the adapters alone"
        )
    if not has_adapters and form != "hf":
        raise UsageError("this run trained the whole model, and has no adapters: --to hf")
    return form


def _model_files(backbone: Backbone, form: Form) -> dict[str, Any]:
    model, tensors = backbone.model, backbone.model.state_dict()
    if form == "merged":
        tensors = merged_state(model)
    names: dict[int, str] = {}  # a tied tensor is saved under its first name
    for name, tensor in tensors.items():
        names.setdefault(tensor.data_ptr() if tensor.numel() else id(tensor), name)
    tensors = {name: tensors[name].detach() for name in names.values()}
    kinds = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    about = _config_of(backbone)
    about["dtype"] = str(next(iter(kinds)) if len(kinds) == 1 else torch.float32).split(".")[-1]
    return {"config.json": [_text(about)], _WEIGHTS: tensor_chunks(tensors)}


def _config_of(backbone: Backbone) -> dict[str, Any]:
    """Return the contents of config.json as transformers would save it."""
    model = backbone.model
    about: dict[str, Any] = copy.deepcopy(model.config).to_diff_dict()
    return {**about, "architectures": [type(model).__name__]}


def _adapter_files(model: nn.Module, name: str) -> dict[str, Any]:
    task = "CAUSAL_LM" if isinstance(model, CausalLm) else "FEATURE_EXTRACTION"
    state = adapter_state(model.backbone.model, base=name, task=task)  # type: ignore[arg-type, union-attr]
    return {CONFIG: [_text(state.config)], TENSORS: tensor_chunks(state.tensors)}


def _head_files(model: Classifier, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files of the pooling and the head, which no class of transformers has."""
    tensors = {n: t for n, t in model.state_dict().items() if not n.startswith("backbone.")}
    pooling = {"kind": model.pooling.kind, "tokens": model.pooling.tokens}
    about = {"pooling": pooling, "head": [str(layer) for layer in model.head], **kept}
    return {"classifier.json": [_text(about)], HEAD: tensor_chunks(tensors)}


def _text(value: object) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode()


def _has_packed(backbone: Backbone) -> bool:
    return any(map(is_quantised, backbone.parameters()))


def _reader(form: Form) -> str:
    import transformers

    if form != "peft":
        return f"transformers {transformers.__version__}"
    try:
        import peft
    except ImportError as error:
        raise DeviceError(
            "the adapter is loaded with PEFT to prove it, and PEFT is missing: pip install peft"
        ) from error
    return f"PEFT {peft.__version__}"


def _notes(model: nn.Module, form: Form) -> tuple[str, ...]:
    notes = []
    if isinstance(model, Classifier):
        notes.append(
            f"its head and pooling are in {HEAD} and classifier.json: no class of transformers has "
            "them; hotloop predict RUN_DIR uses both"
        )
        config = model.backbone.model.config
        if form == "peft" and getattr(config, "is_causal", None) is False:
            notes.append("the base model is to be loaded with is_causal=False in its config")
    return tuple(notes)


def _output_difference(model: nn.Module, base_model: FoundModel, out: Path, form: Form) -> float:
    """Return the largest difference of the outputs, as a share of the largest output."""
    backbone: Backbone = model.backbone  # type: ignore[assignment]
    ids = torch.arange(_SHAPE[0] * _SHAPE[1]).mul(7).add(1).view(_SHAPE) % backbone.vocabulary
    batch = {"input_ids": ids}
    model.eval()
    with torch.inference_mode():
        mine = model.logits(batch) if isinstance(model, CausalLm) else backbone(batch)
        reloaded = _load(backbone, base_model, out, form).eval()
        output = reloaded(input_ids=ids)
    theirs: Tensor = output.last_hidden_state if backbone.head is None else output.logits
    return float((mine.float() - theirs.float()).abs().max() / mine.float().abs().max())


def _load(backbone: Backbone, base_model: FoundModel, out: Path, form: Form) -> Any:
    """Load the model as a user of transformers or PEFT would, with attention by sdpa."""
    from transformers import AutoModel, AutoModelForCausalLM

    auto: Any = AutoModel if backbone.head is None else AutoModelForCausalLM
    with _silence():
        if form != "peft":
            return auto.from_pretrained(out, local_files_only=True)
        from peft import PeftModel

        options: dict[str, Any] = {"config": _config_with_own_attention(backbone)}
        if _has_packed(backbone):
            options["quantization_config"] = _nf4(backbone)
        base = auto.from_pretrained(
            base_model.folder, dtype=torch.float32, local_files_only=True, **options
        )
        return PeftModel.from_pretrained(base, out)


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress the progress bars and messages of transformers."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)  # PEFT
            yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _config_with_own_attention(backbone: Backbone) -> Any:
    config = copy.deepcopy(backbone.model.config)
    config._attn_implementation = "sdpa"
    return config


def _nf4(backbone: Backbone) -> Any:
    from transformers import BitsAndBytesConfig

    unpacked_layers = [
        n
        for n, m in backbone.model.named_modules()
        if isinstance(m, torch.nn.Linear) and not is_quantised(m.weight)
    ]
    return BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
        llm_int8_skip_modules=unpacked_layers,
    )
