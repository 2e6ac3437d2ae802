"""Build a pretrained model, with or without its language-model head, and run it on a batch.

Dims: B rows, T positions, D width.
The model is transformers' own module, with our attention. Without the head, the vocabulary-sized
matrix is never made, and its part of the files is never read.
"""

from __future__ import annotations

import copy
import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from hotloop.core.errors import ConfigError, DataError, DeviceError
from hotloop.models.adapters.in_16_bits import lower
from hotloop.models.attention import in_transformers
from hotloop.models.attention.drop import cheapen
from hotloop.models.weights.streaming_load import fill, low_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hotloop.core.document_boundaries import Boundaries
    from hotloop.models.attention.kernel_choice import Isolation
    from hotloop.models.weights.discovery import FoundModel

__all__ = ["Backbone", "load_backbone"]

# Keys of config.json that hotloop sets itself, or that have no effect here.
_DROPPED: Final = frozenset({
    "attn_implementation", "experts_implementation", "dtype", "torch_dtype", "use_bfloat16",
    "output_attentions", "output_hidden_states", "return_dict", "use_return_dict", "torchscript",
    "gradient_checkpointing", "name_or_path", "transformers_version", "architectures", "id2label",
    "label2id", "num_labels", "problem_type", "finetuning_task", "task_specific_params",
    "pruned_heads",
})  # fmt: skip
_DROPOUTS: Final = ("attention_dropout", "attention_probs_dropout_prob", "attn_pdrop")


class Backbone(nn.Module):
    """Batches -> hidden states [B, T, D]. `model` is transformers' module, with a head or without.

    A batch holds input_ids [B, T] and the further tensors of `data.sampling.token_rows`:
    attention_mask (bool, padding at the end), or boundaries (core.document_boundaries) and
    position_ids if documents share a row; token_type_ids if the model knows them.
    """

    def __init__(self, model: Any, *, isolation: Isolation, positions: int | None = None) -> None:
        """Take a model that attends with `in_transformers.attend`, and its longest sequence."""
        super().__init__()
        self.model, self.isolation = model, isolation
        self.is_naive = False  # True: attention by plain products, as a comparison
        self.looks = in_transformers.looks_of(model)
        self.width = int(model.config.hidden_size)
        self.vocabulary = int(model.config.vocab_size)
        self._takes = frozenset(inspect.signature(self.body.forward).parameters)
        learned = any(
            isinstance(module, nn.Embedding) and ("position" in name or "wpe" in name)
            for name, module in self.body.named_modules()
        )
        self.longest = positions if learned else None  # other positions have no limit
        begins = (m for m in model.modules() if hasattr(m, "create_position_ids_from_input_ids"))
        padding = next((m.padding_idx for m in begins), None)
        self._first = 0 if padding is None else int(padding) + 1  # RoBERTa's first position

    @property
    def body(self) -> Any:
        """Return the model without its head."""
        return self.model.base_model

    @property
    def head(self) -> nn.Module | None:
        """Return the language-model head, hidden states -> logits; None if there is none."""
        if self.model is self.body:
            return None
        return self.model.get_output_embeddings()  # type: ignore[no-any-return]

    def forward(self, batch: Mapping[str, Any]) -> Tensor:
        """Return the hidden states after the last layer's norm; those of padding have no meaning.

        Raises DataError for rows or documents that are longer than the model's positions,
        ConfigError if documents share a row and the model takes no positions.
        """
        ids_BT, more = batch["input_ids"], {}
        layout = in_transformers.layout_of(
            batch, isolation=self.isolation, looks=self.looks, is_naive=self.is_naive
        )
        if layout.boundaries is not None or self._first:
            more["position_ids"] = self._positions(batch, layout.boundaries)
        elif self.longest is not None and ids_BT.shape[1] > self.longest:
            raise DataError(self._too_long(ids_BT.shape[1]))
        if "token_type_ids" in batch and getattr(self.model.config, "type_vocab_size", 0) > 1:
            more["token_type_ids"] = batch["token_type_ids"]
        out = self.body(input_ids=ids_BT, use_cache=False, hotloop=layout, **more)
        return out.last_hidden_state  # type: ignore[no-any-return]

    @contextmanager
    def as_transformers(self) -> Iterator[Any]:
        """Give transformers' module with its own attention, to generate text with a cache."""
        self.model.set_attn_implementation("sdpa" if self.model._supports_sdpa else "eager")
        try:
            yield self.model
        finally:
            self.model.set_attn_implementation(in_transformers.NAME)

    def _positions(self, batch: Mapping[str, Any], boundaries: Boundaries | None) -> Tensor:
        ids_BT = batch["input_ids"]
        if "position_ids" not in self._takes:
            raise ConfigError(
                f"{self.model.config.model_type} takes no positions, so documents cannot share a "
                "row: use padded batches"
            )
        if boundaries is None:
            width = ids_BT.shape[1]
            if self.longest is not None and width > self.longest:
                raise DataError(self._too_long(width))
            return torch.arange(self._first, self._first + width, device=ids_BT.device)[None]
        at_BT: Tensor = batch["position_ids"]
        if self.longest is not None and boundaries.longest > self.longest:
            if long := _longer_inside(boundaries, self.longest):
                raise DataError(self._too_long(long))
            at_BT = at_BT.clamp(max=self.longest - 1)  # only padding: its position does not matter
        return at_BT + self._first if self._first else at_BT

    def _too_long(self, length: int) -> str:
        return (
            f"{length} tokens in one sequence, but {self.model.config.model_type} has "
            f"{self.longest} positions: cut them with data.max_length={self.longest}"
        )


def _longer_inside(boundaries: Boundaries, longest: int) -> int:
    """Return the length of a document that is too long, or 0.

    A row's last segment may be padding. Documents that are too long are refused before step 1, in
    all rows; this catches the others.
    """
    end = 0
    for length in boundaries.lengths:
        end += length
        if length > longest and end % boundaries.width:
            return length
    return 0


def load_backbone(
    source: FoundModel,
    *,
    head: bool,
    isolation: Isolation,
    dtype: torch.dtype = torch.float32,
    weights: bool = True,
    low: torch.dtype | None = None,
    trains: bool = False,
    bidirectional: bool = False,
    attention_dropout: float | None = None,
    seed: int = 0,
) -> Backbone:
    """Return the model on the CPU in training mode, with its language-model `head` or without.

    Without `weights` they are drawn from `seed`, and no file is read. If tensors hold no numbers
    (FakeTensorMode, the meta device) weights are neither drawn nor read. With `low`, the dtype of
    its products, a model has its matrices in 16 bits, as `adapters.in_16_bits.lower` stores them;
    they are to be frozen, unless the model `trains`. `bidirectional` lets a decoder's tokens see
    later ones, in sliding windows as well, and records it in its config: the model saved by
    transformers is bidirectional when it is loaded. `attention_dropout` replaces the config's; any
    but 0 prevents the fast GPU kernels for packed batches.

    Raises ConfigError for a model that cannot be trained here, DataError if config and weights do
    not match, DeviceError without transformers.
    """
    if bidirectional and head:
        raise ConfigError(
            f"{source.name}: a language model that sees the token it is to predict learns nothing: "
            "leave bidirectional off"
        )
    is_opened = bidirectional and source.is_decoder
    config, kind = _configured(source, head=head, opened=is_opened)
    if attention_dropout is not None:
        names = [name for name in _DROPOUTS if hasattr(config, name)]
        if not names:
            raise ConfigError(f"{source.name} has no attention dropout that could be set")
        setattr(config, names[0], attention_dropout)
    drawn = not weights and not _virtual()
    model = _built(source, kind, config, dtype, seed=seed if drawn else None)
    cheapen(model)
    if is_opened:
        for module in model.modules():
            if getattr(module, "is_causal", None) is True:
                module.is_causal = False
    backbone = Backbone(model, isolation=isolation, positions=source.positions)
    reads = weights and not _virtual()
    if low is not None:
        lower(model, low, stored=low_dtype(source), is_filled=not reads, is_trained=trains)
    if reads:
        fill(model, source)
    return backbone


def _virtual() -> bool:
    """Return whether new tensors have sizes but no values."""
    new = torch.empty(0)
    return isinstance(new, FakeTensor) or new.is_meta


@contextmanager
def _drawing(seed: int) -> Iterator[None]:
    """Draw on the CPU from a seed; restore the generator at the end."""
    before = torch.default_generator.get_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(before)


def _configured(source: FoundModel, *, head: bool, opened: bool) -> tuple[Any, Any]:
    """Return transformers' config and class of the model; no code of the folder runs."""
    try:
        from transformers.models.auto import modeling_auto
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    except ImportError as error:
        raise DeviceError(
            "the package transformers is missing: pip install 'hotloop[hf]'"
        ) from error
    if source.model_type not in CONFIG_MAPPING:
        raise ConfigError(
            f"{source.name}: this transformers has no architecture {source.model_type!r}: take a "
            "newer one, or another model"
        )
    config_class = CONFIG_MAPPING[source.model_type]
    keys = copy.deepcopy(dict(source.config))  # transformers writes into nested values
    keys = {k: v for k, v in keys.items() if k not in _DROPPED and not k.startswith("_")}
    if odd := [key for key in keys if callable(getattr(config_class, key, None))]:
        raise ConfigError(f"{source.name}: {odd[0]!r} is no key for a config.json: remove it")
    if opened:  # Gemma 3 has its own switch; Gemma 2 as well, but its masks stay causal (5.23)
        has_switch = hasattr(config_class, "use_bidirectional_attention")
        has_switch = has_switch and source.model_type != "gemma2"
        keys |= {"use_bidirectional_attention": True} if has_switch else {"is_causal": False}
    try:
        config = config_class.from_dict(keys)
    except Exception as error:  # each of the 400 config classes has its own errors
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"{source.name}: transformers does not accept its config.json: {first}"
        ) from error
    mapping = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING if head else modeling_auto.MODEL_MAPPING
    kind = mapping.get(type(config), None)
    if kind is None or not getattr(kind, "_supports_attention_backend", False):
        noun = "language model" if head else "text model"
        raise ConfigError(
            f"{source.name}: transformers has no {noun} of {source.model_type} that takes another "
            "attention: take another architecture"
        )
    return config, kind


def _built(
    source: FoundModel, kind: Any, config: Any, dtype: torch.dtype, *, seed: int | None
) -> Any:
    """Return the module, with weights drawn from a seed, or not set at all."""
    from transformers.initialization import no_init_weights

    in_transformers.register()
    takes = inspect.signature(kind.__init__).parameters
    more = {"add_pooling_layer": False} if "add_pooling_layer" in takes else {}
    try:
        with no_init_weights() if seed is None else _drawing(seed):
            model = kind._from_config(
                config, dtype=dtype, attn_implementation=in_transformers.NAME, **more
            )
    except Exception as error:  # each of the 400 model classes has its own errors
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"{source.name}: transformers cannot build a model of its config.json: {first}"
        ) from error
    model.tie_weights()  # transformers ties weights only when it draws them
    return model
